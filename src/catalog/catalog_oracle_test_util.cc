#include "catalog/catalog_oracle_test_util.h"

#include <algorithm>

namespace inferscale {

const CatalogOracle::Fact* CatalogOracle::FindId(NamespaceId ns, const std::string& id) const {
  const FactSeq seq = SeqOf(ns, id);
  return seq == 0 ? nullptr : &facts.at(seq);
}

FactSeq CatalogOracle::SeqOf(NamespaceId ns, const std::string& id) const {
  for (const auto& [seq, fact] : facts)
    if (fact.ns == ns && fact.id == id) return seq;
  return 0;
}

std::set<FactSeq> CatalogOracle::WithParts(FactSeq whole) const {
  std::set<FactSeq> all = {whole};
  for (const auto& [seq, fact] : facts)
    if (fact.part_of == whole) all.insert(seq);
  return all;
}

AddOutcome CatalogOracle::OutcomeOf(NamespaceId ns, const NewFact& given, Micros now) const {
  if (const Fact* same = FindId(ns, given.id)) {
    const bool equal = same->text == given.content.text && same->kind != FactKind::kPart;
    return equal ? AddOutcome::kDuplicate : AddOutcome::kIdTaken;
  }
  for (const auto& [seq, fact] : facts)
    if (fact.ns == ns && fact.text == given.content.text && fact.kind != FactKind::kPart &&
        fact.superseded_by.empty() && (!fact.expires || *fact.expires > now))
      return AddOutcome::kDuplicate;
  return AddOutcome::kAdded;
}

void CatalogOracle::Queue(FactSeq seq) {
  const auto fact = facts.find(seq);
  if (fact == facts.end() || fact->second.kind == FactKind::kParent || !fact->second.superseded_by.empty()) return;
  queue.insert(seq);
}

void CatalogOracle::Die(RecordSeq record) {
  const KvLocation& location = usable.at(record).row.location;
  erasing.insert({record, location.segment, location.offset});
  usable.erase(record);
}

void CatalogOracle::Strike(const std::set<FactSeq>& gone, const std::set<TurnSeq>& gone_turns, bool own) {
  const std::map<RecordSeq, Record> before = usable;
  for (const auto& [record, each] : before) {
    const bool is_own = own && gone.contains(each.row.fact);
    const bool saw = std::any_of(each.row.saw.begin(), each.row.saw.end(), [&](const Seen& seen) {
      return seen.kind == SeenKind::kFact ? gone.contains(seen.seq) : gone_turns.contains(seen.seq);
    });
    if (!is_own && !saw) continue;
    Die(record);
    if (!is_own) Queue(each.row.fact);
  }
}

void CatalogOracle::AddParts(FactSeq parent, const std::vector<NewPart>& parts, const std::vector<FactSeq>& seqs) {
  for (size_t i = 0; i < parts.size(); ++i) {
    Fact part = facts.at(parent);
    part.id += "#" + std::to_string(i + 1);
    part.kind = FactKind::kPart;
    part.part_of = parent;
    part.text = parts[i].text;
    facts[seqs.at(i)] = part;
    Queue(seqs[i]);
  }
}

void CatalogOracle::Add(NamespaceId ns, const NewFact& given, const AddedFact& added) {
  const bool whole = given.content.parts.empty();
  facts[added.seq] = {ns,
                      added.id,
                      1,
                      given.content.text,
                      whole ? FactKind::kWhole : FactKind::kParent,
                      0,
                      given.turn,
                      given.supersede_key,
                      "",
                      given.expires_us};
  Queue(added.seq);
  AddParts(added.seq, given.content.parts, added.parts);
  std::set<FactSeq> replaced;
  for (const std::string& id : given.supersedes) replaced.insert(SeqOf(ns, id));
  for (const auto& [seq, fact] : facts)
    if (fact.ns == ns && seq != added.seq && fact.kind != FactKind::kPart && fact.superseded_by.empty() &&
        !given.supersede_key.empty() && fact.key == given.supersede_key)
      replaced.insert(seq);
  for (const FactSeq old : replaced) Supersede(old, added.id);
}

void CatalogOracle::Supersede(FactSeq old, const std::string& by) {
  const std::set<FactSeq> hidden = WithParts(old);
  for (const FactSeq seq : hidden) {
    facts.at(seq).superseded_by = by;
    queue.erase(seq);
  }
  Strike(hidden, {}, true);
}

void CatalogOracle::Update(FactSeq seq, const FactUpdate& update, const std::vector<FactSeq>& parts) {
  const bool gets_expiry = update.expires_us && *update.expires_us && !facts.at(seq).expires;
  if (update.expires_us)
    for (const FactSeq each : WithParts(seq)) facts.at(each).expires = *update.expires_us;
  if (gets_expiry) Strike(WithParts(seq), {}, false);
  if (!update.content || update.content->text == facts.at(seq).text) return;
  Strike(WithParts(seq), {}, true);
  for (const FactSeq each : WithParts(seq)) {
    queue.erase(each);
    if (each != seq) facts.erase(each);
  }
  Fact& fact = facts.at(seq);
  fact.version += 1;
  fact.text = update.content->text;
  fact.kind = update.content->parts.empty() ? FactKind::kWhole : FactKind::kParent;
  Queue(seq);
  AddParts(seq, update.content->parts, parts);
}

void CatalogOracle::Delete(const std::set<FactSeq>& whole) {
  std::set<FactSeq> gone;
  std::set<std::pair<NamespaceId, std::string>> their_turns;
  for (const FactSeq seq : whole) {
    gone.merge(WithParts(seq));
    if (!facts.at(seq).turn.empty()) their_turns.insert({facts.at(seq).ns, facts.at(seq).turn});
  }
  std::set<TurnSeq> gone_turns;
  for (const auto& [seq, turn] : turns) {
    if (!their_turns.contains({turn.ns, turn.id})) continue;
    const bool kept = std::any_of(facts.begin(), facts.end(), [&, &turn = turn](const auto& each) {
      const Fact& fact = each.second;
      return fact.ns == turn.ns && fact.turn == turn.id && fact.superseded_by.empty() && !gone.contains(each.first);
    });
    if (!kept) gone_turns.insert(seq);
  }
  Strike(gone, gone_turns, true);
  for (const FactSeq seq : gone) facts.erase(seq), queue.erase(seq);
  for (const TurnSeq seq : gone_turns) turns.erase(seq);
}

void CatalogOracle::Clear(NamespaceId ns) {
  const std::map<RecordSeq, Record> before = usable;
  for (const auto& [record, each] : before)
    if (each.row.name_space == ns) Die(record);
  std::erase_if(queue, [&](FactSeq seq) { return facts.at(seq).ns == ns; });
  std::erase_if(facts, [&](const auto& each) { return each.second.ns == ns; });
  std::erase_if(turns, [&](const auto& each) { return each.second.ns == ns; });
}

std::set<FactSeq> CatalogOracle::Due(Micros now) const {
  std::set<FactSeq> due;
  for (const auto& [seq, fact] : facts)
    if (fact.kind != FactKind::kPart && fact.expires && *fact.expires <= now) due.insert(seq);
  return due;
}

void CatalogOracle::PutTurn(NamespaceId ns, TurnSeq seq, const NewTurn& given) {
  const auto stored = turns.find(seq);
  if (stored == turns.end()) {
    turns[seq] = {ns, given.id, 1, given.text};
  } else if (stored->second.text != given.text) {
    stored->second.version += 1;
    stored->second.text = given.text;
    Strike({}, {seq}, false);
  }
}

bool CatalogOracle::Put(const Record& record, Micros now) {
  const KvRow& row = record.row;
  const auto usable_fact = [&](FactSeq seq, uint32_t version) {
    const auto fact = facts.find(seq);
    return fact != facts.end() && fact->second.ns == row.name_space && fact->second.kind != FactKind::kParent &&
           fact->second.superseded_by.empty() && fact->second.version == version;
  };
  bool fresh = usable_fact(row.fact, row.content_version);
  if (fresh && facts.at(row.fact).expires && *facts.at(row.fact).expires <= now) fresh = false;
  for (const Seen& seen : row.saw) {
    const auto turn = turns.find(seen.seq);
    fresh &= seen.kind == SeenKind::kFact
                 ? usable_fact(seen.seq, seen.version) && !facts.at(seen.seq).expires
                 : turn != turns.end() && turn->second.ns == row.name_space && turn->second.version == seen.version;
  }
  if (!fresh) {
    erasing.insert({row.record, row.location.segment, row.location.offset});
    return false;
  }
  const std::map<RecordSeq, Record> before = usable;
  for (const auto& [older, each] : before)
    if (each.row.fact == row.fact && each.row.model_key == row.model_key) Die(older);
  usable[row.record] = record;
  queue.erase(row.fact);
  return true;
}

void CatalogOracle::Drop(RecordSeq record, bool requeue) {
  const auto dropped = usable.find(record);
  if (dropped == usable.end()) return;
  const FactSeq fact = dropped->second.row.fact;
  Die(record);
  if (requeue) Queue(fact);
}

void CatalogOracle::Move(RecordSeq record, const KvLocation& to) {
  const auto moved = usable.find(record);
  if (moved != usable.end()) {
    moved->second.row.location = to;
  } else {
    erasing.insert({record, to.segment, to.offset});
  }
}

std::string CatalogOracle::WhyNot(const Record& record) const {
  const auto own = facts.find(record.row.fact);
  if (own == facts.end()) return "its fact is gone";
  if (own->second.text != record.texts.at(0)) return "its fact has another text";
  if (!own->second.superseded_by.empty()) return "its fact was superseded";
  for (size_t i = 0; i < record.row.saw.size(); ++i) {
    const Seen& seen = record.row.saw[i];
    const std::string& text = record.texts.at(i + 1);
    if (seen.kind == SeenKind::kTurn) {
      const auto turn = turns.find(seen.seq);
      if (turn == turns.end() || turn->second.text != text) return "it saw a turn that is gone or changed";
      continue;
    }
    const auto fact = facts.find(seen.seq);
    if (fact == facts.end() || fact->second.text != text) return "it saw a text that is gone or changed";
    if (!fact->second.superseded_by.empty()) return "it saw a superseded text";
    if (fact->second.expires) return "it saw a text that expires";
  }
  return "";
}

}  // namespace inferscale
