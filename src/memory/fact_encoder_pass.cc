// One group of facts through the engine and into the vault.
#include <algorithm>
#include <unordered_set>

#include "base/clock.h"
#include "core/fact.h"
#include "memory/fact_encoder_impl.h"

namespace inferscale {

// An anchored window yields where a fact, longer than a run may be, needs its room.
void FactEncoder::FitContext(Group& group) const {
  size_t tokens = header_.size();
  for (const auto* part : {&group.turn_tokens, &group.seen_tokens, &group.tokens})
    for (const Tokens& each : *part) tokens += each.size();
  size_t drop = 0;
  while (tokens > engine_->info().context_tokens && drop < group.seen.size())
    tokens -= group.seen_tokens[drop++].size();
  group.seen.erase(group.seen.begin(), group.seen.begin() + static_cast<std::ptrdiff_t>(drop));
  group.seen_tokens.erase(group.seen_tokens.begin(), group.seen_tokens.begin() + static_cast<std::ptrdiff_t>(drop));
}

Result<bool> FactEncoder::ReadTexts(NamespaceId ns, Group& group) const {
  std::vector<const Fact*> all = group.seen;
  all.insert(all.end(), group.facts.begin(), group.facts.end());
  std::vector<FactSeq> seqs;
  for (const Fact* fact : all) seqs.push_back(fact->seq);
  TRY_ASSIGN(const std::vector<FactRow> rows, memory_->catalog().GetFacts(ns, seqs));
  if (rows.size() != all.size()) return false;
  const Micros now = NowMicros();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].seq != all[i]->seq || rows[i].version != all[i]->run.version || !IsLive(rows[i], now)) return false;
    Tokens tokens = engine_->tokenizer().Text(FactPromptText(rows[i].text, rows[i].date));
    (i < group.seen.size() ? group.seen_tokens : group.tokens).push_back(std::move(tokens));
  }
  for (const TurnRow& turn : group.turns)
    group.turn_tokens.push_back(engine_->tokenizer().Text(TurnPromptText(turn.speaker, turn.text)));
  if (window_.kind == WindowKind::kAnchored) FitContext(group);
  return true;
}

namespace {

// What a group's facts have seen, in order, those facts among them: as sights for the digest, as rows for the catalog.
struct Seeing {
  std::vector<Sight> sights;
  std::vector<Seen> rows;

  void Add(SeenKind kind, uint64_t seq, std::string_view id, uint32_t version, const Tokens& tokens) {
    sights.push_back({id, version, tokens});
    rows.push_back({kind, seq, version});
  }
  template <class Facts>
  void AddFacts(const Facts& facts, const std::vector<Tokens>& tokens) {
    for (size_t i = 0; i < facts.size(); ++i)
      Add(SeenKind::kFact, facts[i]->seq, facts[i]->run.id, facts[i]->run.version, tokens[i]);
  }
};

void Append(Tokens& tokens, const std::vector<Tokens>& parts) {
  for (const Tokens& part : parts) tokens.insert(tokens.end(), part.begin(), part.end());
}

}  // namespace

// What the engine makes of the group. On its error, what was made before.
Result<GroupStats> FactEncoder::MakeRecords(const NamespaceInfo& ns, const Group& group, const EncodeControl& control,
                                            std::vector<NewRecord>& made) const {
  const EngineInfo& engine = engine_->info();
  Seeing seen;
  for (size_t i = 0; i < group.turns.size(); ++i) {
    const TurnRow& turn = group.turns[i];
    seen.Add(SeenKind::kTurn, turn.seq, turn.id, turn.version, group.turn_tokens[i]);
  }
  seen.AddFacts(group.seen, group.seen_tokens);
  const size_t context = seen.rows.size();
  seen.AddFacts(group.facts, group.tokens);

  FactGroup pass;
  pass.stem = header_;
  Append(pass.stem, group.turn_tokens);
  Append(pass.stem, group.seen_tokens);
  pass.facts = group.tokens;
  pass.missing = group.missing;
  pass.keep_stem = group.open;
  pass.pass_tokens = control.pass_tokens;

  GroupHooks hooks;
  hooks.go_on = control.go_on;
  hooks.load = [&](size_t place) -> Result<RecordHandle> {
    const Fact& fact = *group.facts[place];
    const WantedRecord wanted{fact.seq, fact.run.id, fact.run.version, group.tokens[place]};
    TRY_ASSIGN(std::vector<RecordHandle> loaded,
               memory_->vault().Load(ns, engine.model_key, engine.kv_shape, {&wanted, 1}));
    return std::move(loaded.front());
  };
  hooks.made = [&](size_t place, KvPayload payload) -> Result<RecordHandle> {
    const Fact& fact = *group.facts[place];
    RecordKey key{.name_space = ns.name,
                  .fact_id = fact.run.id,
                  .content_version = fact.run.version,
                  .token_ids = group.tokens[place],
                  .model_key = engine.model_key,
                  .encoding = KvEncoding::kF16,
                  .calibration_id = {},
                  .window_digest = WindowDigest(window_.kind, std::span(seen.sights).first(context + place))};
    auto record = std::make_shared<const KvRecord>(KvRecord{std::move(key), std::move(payload)});
    const auto end = seen.rows.begin() + static_cast<std::ptrdiff_t>(context + place);
    made.push_back({fact.seq, record, {seen.rows.begin(), end}});
    return record;
  };
  return EncodeFactGroup(*engine_, pass, hooks);
}

// Together, or where the store has no room for all of them one after another: each then makes room for the next.
static Result<std::vector<bool>> PutRecords(KvVault& vault, NamespaceId ns, std::span<const NewRecord> records) {
  auto stored = vault.Put(ns, records);
  if (stored || stored.error().code != ErrorCode::kNoSpace || records.size() < 2) return stored;
  std::vector<bool> all;
  for (const NewRecord& record : records) {
    TRY_ASSIGN(const std::vector<bool> one, vault.Put(ns, {&record, 1}));
    all.push_back(one.front());
  }
  return all;
}

Status FactEncoder::EncodeGroup(const NamespaceInfo& ns, const Group& group, const EncodeControl& control,
                                EncodeStats& stats) const {
  std::vector<NewRecord> made;
  const auto encoded = MakeRecords(ns, group, control, made);
  const auto stored = PutRecords(memory_->vault(), ns.id, made);  // also what was made before a failure
  std::unordered_set<FactSeq> done;
  for (size_t i = 0; i < made.size(); ++i) {
    if (!stored) break;
    // Refused: it, or what it saw, changed while the pass ran. Still queued, and no failure.
    done.insert(made[i].fact);
    if (stored->at(i)) ++stats.encoded;
  }
  if (encoded) {
    stats.fact_tokens += encoded->fact_tokens;
    stats.computed_tokens += encoded->computed_tokens;
    if (stored) return {};
  }
  const Error& error = encoded ? stored.error() : encoded.error();
  std::vector<FactSeq> failed;
  for (size_t i = 0; i < group.facts.size(); ++i)
    if (group.missing[i] && !done.contains(group.facts[i]->seq)) failed.push_back(group.facts[i]->seq);
  stats.failed += failed.size();
  stats.last_error = error.message;
  TRY(memory_->catalog().EncodeFailed(failed, error.message));
  return stored ? Status() : tl::unexpected<Error>(stored.error());
}

}  // namespace inferscale
