// What a catalog must say, in the simplest terms: maps in memory, every rule a loop over all of it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "catalog/catalog_types.h"

namespace inferscale {

struct CatalogOracle {
  struct Fact {
    NamespaceId ns = 0;
    std::string id;
    uint32_t version = 1;
    std::string text;
    FactKind kind = FactKind::kWhole;
    FactSeq part_of = 0;
    std::string turn;
    std::string key;
    std::string superseded_by;
    std::optional<Micros> expires;
  };
  struct Turn {
    NamespaceId ns = 0;
    std::string id;
    uint32_t version = 1;
    std::string text;
  };
  struct Record {
    KvRow row;
    std::vector<std::string> texts;  // what it was encoded from: its own fact's, then those that it saw
  };
  using Erasure = std::tuple<RecordSeq, uint64_t, uint64_t>;  // record, segment, offset

  std::map<FactSeq, Fact> facts;
  std::map<TurnSeq, Turn> turns;
  std::map<RecordSeq, Record> usable;
  std::set<FactSeq> queue;
  std::multiset<Erasure> erasing;

  const Fact* FindId(NamespaceId ns, const std::string& id) const;
  FactSeq SeqOf(NamespaceId ns, const std::string& id) const;  // 0: none
  std::set<FactSeq> WithParts(FactSeq fact) const;
  // All undated.
  AddOutcome OutcomeOf(NamespaceId ns, const NewFact& fact, Micros now) const;

  void Add(NamespaceId ns, const NewFact& fact, const AddedFact& added);
  void Supersede(FactSeq old, const std::string& by);
  void Update(FactSeq fact, const FactUpdate& update, const std::vector<FactSeq>& parts);
  void Delete(const std::set<FactSeq>& whole);
  void Clear(NamespaceId ns);
  std::set<FactSeq> Due(Micros now) const;  // whole facts and parents whose expiry has come
  void PutTurn(NamespaceId ns, TurnSeq seq, const NewTurn& turn);
  bool Put(const Record& record, Micros now);  // false: stale
  void Drop(RecordSeq record, bool requeue);
  void Move(RecordSeq record, const KvLocation& to);

  // Why the record must not be used; empty: it may. Looks at texts and not at versions.
  std::string WhyNot(const Record& record) const;

 private:
  void AddParts(FactSeq parent, const std::vector<NewPart>& parts, const std::vector<FactSeq>& seqs);
  void Strike(const std::set<FactSeq>& gone, const std::set<TurnSeq>& gone_turns, bool own);
  void Die(RecordSeq record);
  void Queue(FactSeq fact);
};

}  // namespace inferscale
