#include "memory/encoder.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "memory/group_encoder.h"

namespace inferscale {

Encoder::Encoder(Engine& engine, RecordCache& cache, const FactSet& facts, Tokens header, std::string name_space)
    : engine_(engine), cache_(cache), facts_(facts), header_(std::move(header)), name_space_(std::move(name_space)) {}

// A fact of a group has seen the context and the group's facts before it.
void Encoder::MakeKeys(const WindowGroup& group, WindowKind kind) {
  std::vector<Sight> seen = group.context;
  for (const size_t i : group.facts) {
    const FactSet::Item& item = facts_[i];
    keys_[i] = {.name_space = name_space_,
                .fact_id = item.fact.id,
                .content_version = item.fact.version,
                .token_ids = item.tokens,
                .model_key = engine_.info().model_key,
                .encoding = KvEncoding::kF16,
                .calibration_id = {},
                .window_digest = WindowDigest(kind, seen)};
    seen.push_back(item.AsSight());
  }
}

Result<EncodeStats> Encoder::Run(std::span<const WindowGroup> groups, WindowKind kind, const ProgressFn& progress) {
  Stopwatch watch;
  EncodeStats stats;
  stats.facts = facts_.size();
  keys_.assign(facts_.size(), {});
  for (const WindowGroup& group : groups) MakeKeys(group, kind);
  TRY_ASSIGN(std::vector<bool> missing, cache_.Verify(keys_, engine_.info().kv_shape));
  missing.flip();
  const size_t todo = static_cast<size_t>(std::count(missing.begin(), missing.end(), true));
  stats.cached = facts_.size() - todo;
  if (todo > 0 && progress) progress(0, todo);
  for (const WindowGroup& group : groups) {
    const size_t before = stats.encoded;
    TRY(EncodeGroup(group, missing, stats));
    if (stats.encoded != before && progress) progress(stats.encoded, todo);
  }
  stats.seconds = watch.Millis() / 1000.0;
  return stats;
}

Status Encoder::EncodeGroup(const WindowGroup& group, const std::vector<bool>& missing, EncodeStats& stats) {
  FactGroup pass;
  pass.stem = header_;
  for (const Sight& sight : group.context) pass.stem.insert(pass.stem.end(), sight.tokens.begin(), sight.tokens.end());
  for (const size_t fact : group.facts) {
    pass.facts.push_back(facts_[fact].tokens);
    pass.missing.push_back(missing[fact]);
  }
  GroupHooks hooks;
  hooks.load = [&](size_t place) { return cache_.Find(keys_[group.facts[place]], engine_.info().kv_shape); };
  hooks.made = [&](size_t place, KvPayload payload) -> Result<RecordHandle> {
    auto record = std::make_shared<const KvRecord>(KvRecord{keys_[group.facts[place]], std::move(payload)});
    TRY(cache_.Put(record));
    return record;
  };
  TRY_ASSIGN(const GroupStats made, EncodeFactGroup(engine_, pass, hooks));
  stats.encoded += made.made;
  stats.fact_tokens += made.fact_tokens;
  stats.computed_tokens += made.computed_tokens;
  return {};
}

}  // namespace inferscale
