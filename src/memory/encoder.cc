#include "memory/encoder.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"

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

// Consecutive missing facts share one pass behind the context and the records of the facts before them.
Status Encoder::EncodeGroup(const WindowGroup& group, const std::vector<bool>& missing, EncodeStats& stats) {
  const auto is_missing = [&](size_t place) { return missing[group.facts[place]]; };
  std::vector<RecordHandle> members;  // of the facts before `place`, loaded only when a pass needs them
  for (size_t place = 0; place < group.facts.size();) {
    if (!is_missing(place)) {
      ++place;
      continue;
    }
    CaptureRequest request;
    request.stem = header_;
    for (const Sight& sight : group.context)
      request.stem.insert(request.stem.end(), sight.tokens.begin(), sight.tokens.end());
    while (members.size() < place) {
      TRY_ASSIGN(RecordHandle member, cache_.Find(keys_[group.facts[members.size()]], engine_.info().kv_shape));
      if (member == nullptr) break;
      members.push_back(std::move(member));
    }
    // A record that vanished or is damaged (the cache says so) is made again with what follows it.
    const size_t first = members.size();
    request.members = members;
    size_t end = place;
    while (end < group.facts.size() && (end < place + 1 || is_missing(end))) ++end;
    for (size_t i = first; i < end; ++i) request.fresh.push_back(facts_[group.facts[i]].tokens);
    TRY_ASSIGN(CaptureResult captured, engine_.Capture(std::move(request)).get());
    stats.computed_tokens += captured.computed_tokens;
    for (size_t i = first; i < end; ++i) {
      const size_t fact = group.facts[i];
      auto record = std::make_shared<KvRecord>(KvRecord{keys_[fact], std::move(captured.payloads[i - first])});
      stats.fact_tokens += record->tokens();
      if (is_missing(i)) ++stats.encoded;
      TRY(cache_.Put(*record));
      members.push_back(std::move(record));
    }
    place = end;
  }
  return {};
}

}  // namespace inferscale
