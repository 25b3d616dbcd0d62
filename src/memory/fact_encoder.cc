#include "memory/fact_encoder.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "base/assert.h"
#include "base/clock.h"
#include "core/fact.h"

namespace inferscale {

namespace {

bool IsLive(const FactRow& row, Micros now) {
  return row.superseded_by.empty() && (!row.expires_us || *row.expires_us > now);
}

// Whether a namespace's queue is to be worked on: a full run waits, something is wanted or tried again, or nothing new
// has come for the delay.
bool IsReady(const std::vector<QueueItem>& queued, size_t run_facts, Micros now) {
  if (queued.size() >= run_facts) return true;
  bool waits = false, due = false;
  for (const QueueItem& item : queued) {
    if (item.due_us <= now && (item.priority > 0 || item.attempts > 0)) return true;
    waits = waits || (item.attempts == 0 && item.due_us > now);
    due = due || item.due_us <= now;
  }
  return due && !waits;
}

}  // namespace

struct FactEncoder::Fact {
  FactSeq seq = 0;
  RunFact run;
  std::string turn;
  bool alone = false;  // it expires: in nobody's window, and without one
};

// Facts that share a pass, and what they see.
struct FactEncoder::Group {
  std::vector<const Fact*> seen, facts;
  std::vector<TurnRow> turns;  // seen too, before the facts
  std::vector<bool> missing;   // [facts]
  bool open = false;           // more facts may come
  int32_t priority = 0;
  std::vector<Tokens> turn_tokens, seen_tokens, tokens;  // of ReadTexts
};

struct FactEncoder::Plan {
  std::vector<Fact> live;                        // in order
  std::unordered_map<FactSeq, int32_t> missing;  // and their priorities
  std::vector<Group> groups;

  bool IsMissing(const Fact& fact) const { return missing.contains(fact.seq); }
  void Add(Group group) {
    for (const Fact* fact : group.facts) {
      const auto found = missing.find(fact->seq);
      group.missing.push_back(found != missing.end());
      if (found != missing.end()) group.priority = std::max(group.priority, found->second);
    }
    groups.push_back(std::move(group));
  }
};

Result<FactEncoder> FactEncoder::Make(Memory& memory, Engine& engine, Tokens header, const WindowSpec& window) {
  if (window.kind == WindowKind::kNear)
    return Fail(ErrorCode::kInvalidArgument,
                "--encode-window near:A+B is for `ask --facts`: use anchored:C, facts:N, turns:W or none here");
  return FactEncoder(memory, engine, std::move(header), window);
}

// Live facts in order. The tokens of those in a stored run were counted before.
Status FactEncoder::ScanLive(NamespaceId ns, Plan& plan) const {
  TRY_ASSIGN(const std::vector<StoredRun> runs, memory_->catalog().LoadRuns(ns));
  std::unordered_map<std::string_view, const RunFact*> known;
  for (const StoredRun& stored : runs)
    for (const RunFact& fact : stored.run.members) known[fact.id] = &fact;
  const Micros now = NowMicros();
  ScanOptions options;
  options.by_order = true;
  TRY(memory_->catalog().ScanFacts(ns, options, [&](const ScanRow& row) {
    if (!IsLive(row.fact, now)) return true;
    Fact& fact = plan.live.emplace_back();
    fact.seq = row.fact.seq;
    fact.turn = row.fact.turn;
    fact.alone = row.fact.expires_us.has_value();
    const auto found = known.find(row.fact.id);
    if (found != known.end() && found->second->version == row.fact.version) {
      fact.run = *found->second;
      return true;
    }
    const std::string text = FactPromptText(row.fact.text, row.fact.date);
    fact.run = {row.fact.id, row.fact.version, HashBytes(text),
                static_cast<uint32_t>(engine_->tokenizer().Text(text).size())};
    return true;
  }));
  return {};
}

Status FactEncoder::FindMissing(NamespaceId ns, EncodeWhat what, Plan& plan) const {
  Catalog& catalog = memory_->catalog();
  if (what == EncodeWhat::kAll) TRY(catalog.EnqueueAll(ns));
  TRY_ASSIGN(const std::vector<QueueItem> queued, catalog.QueuedFacts(ns));
  const auto run_facts = static_cast<size_t>(window_.kind == WindowKind::kAnchored ? window_.count : 1);
  if (queued.empty() || (what == EncodeWhat::kDue && !IsReady(queued, run_facts, NowMicros()))) return {};
  std::vector<FactSeq> seqs;
  for (const QueueItem& item : queued) {
    plan.missing[item.fact] = item.priority;
    seqs.push_back(item.fact);
  }
  if (what == EncodeWhat::kAll) return {};
  // Queued though it has one, by a request for another model, say.
  TRY_ASSIGN(const std::vector<KvRow> rows, catalog.UsableRecords(ns, engine_->info().model_key, seqs));
  std::vector<FactSeq> done;
  for (const KvRow& row : rows) {
    plan.missing.erase(row.fact);
    done.push_back(row.fact);
  }
  return done.empty() ? Status() : catalog.Dequeue(done);
}

Status FactEncoder::PlanRuns(NamespaceId ns, Plan& plan) const {
  std::vector<RunFact> live;
  std::unordered_map<std::string_view, const Fact*> by_id;
  for (const Fact& fact : plan.live) {
    if (fact.alone) continue;
    live.push_back(fact.run);
    by_id[fact.run.id] = &fact;
  }
  // A run and its anchor must fit a pass, also of a model with a small context.
  const size_t context = engine_->info().context_tokens, header = header_.size();
  const size_t room = (context - std::min(context, header)) / 2;
  const int run_tokens = static_cast<int>(std::clamp<size_t>(room, 1, limits::kRunTokens));
  TRY_ASSIGN(const std::vector<StoredRun> stored, memory_->catalog().LoadRuns(ns));
  std::vector<FactRun> runs;
  for (const StoredRun& each : stored) runs.push_back(each.run);
  RunBook book(window_.count, run_tokens, runs);
  book.Update(live);
  if (book.runs() != runs) TRY(memory_->catalog().SaveRuns(ns, book.runs()));
  for (const FactRun& run : book.runs()) {
    Group group;
    for (const RunFact& fact : run.members) group.facts.push_back(by_id.at(fact.id));
    if (std::none_of(group.facts.begin(), group.facts.end(), [&](const Fact* f) { return plan.IsMissing(*f); }))
      continue;
    for (const RunFact& fact : run.anchor) group.seen.push_back(by_id.at(fact.id));
    group.open = !run.closed;
    plan.Add(std::move(group));
  }
  for (const Fact& fact : plan.live) {
    if (!fact.alone || !plan.IsMissing(fact)) continue;
    Group group;
    group.facts.push_back(&fact);
    plan.Add(std::move(group));
  }
  return {};
}

Status FactEncoder::AddTurns(NamespaceId ns, const Fact& fact, Group& group) const {
  if (fact.turn.empty()) return {};
  const auto source = memory_->catalog().FindTurn(ns, fact.turn);
  if (!source && source.error().code == ErrorCode::kNotFound) return {};  // sees the header only
  TRY(source);
  const auto count = std::min<uint64_t>(source->ordinal, static_cast<uint64_t>(window_.count));
  TRY_ASSIGN(group.turns, memory_->catalog().GetTurns(ns, source->ordinal - count, count));
  return {};
}

// Windows other than anchored ones: each fact has its own.
Status FactEncoder::PlanSingles(NamespaceId ns, Plan& plan) const {
  std::vector<const Fact*> before;
  for (const Fact& fact : plan.live) {
    if (plan.IsMissing(fact)) {
      Group group;
      group.facts.push_back(&fact);
      if (window_.kind == WindowKind::kFacts && !fact.alone) {
        const size_t count = std::min(before.size(), static_cast<size_t>(window_.count));
        group.seen.assign(before.end() - static_cast<std::ptrdiff_t>(count), before.end());
      }
      if (window_.kind == WindowKind::kTurns) TRY(AddTurns(ns, fact, group));
      plan.Add(std::move(group));
    }
    if (!fact.alone) before.push_back(&fact);
  }
  return {};
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
  return true;
}

namespace {

// What the group's members have seen before the one at hand: as sights for the digest, as rows for the catalog.
struct Seeing {
  std::vector<Sight> sights;
  std::vector<Seen> rows;
  void Add(SeenKind kind, uint64_t seq, std::string_view id, uint32_t version, const Tokens& tokens) {
    sights.push_back({id, version, tokens});
    rows.push_back({kind, seq, version});
  }
};

}  // namespace

Status FactEncoder::EncodeGroup(const NamespaceInfo& ns, Group& group, const EncodeControl& control,
                                EncodeStats& stats) const {
  FactGroup pass;
  pass.stem = header_;
  Seeing seen;
  const auto see = [&](const Tokens& tokens) { pass.stem.insert(pass.stem.end(), tokens.begin(), tokens.end()); };
  for (size_t i = 0; i < group.turns.size(); ++i) {
    const TurnRow& turn = group.turns[i];
    see(group.turn_tokens[i]);
    seen.Add(SeenKind::kTurn, turn.seq, turn.id, turn.version, group.turn_tokens[i]);
  }
  for (size_t i = 0; i < group.seen.size(); ++i) {
    see(group.seen_tokens[i]);
    seen.Add(SeenKind::kFact, group.seen[i]->seq, group.seen[i]->run.id, group.seen[i]->run.version,
             group.seen_tokens[i]);
  }
  const size_t context = seen.rows.size();
  for (size_t i = 0; i < group.facts.size(); ++i)
    seen.Add(SeenKind::kFact, group.facts[i]->seq, group.facts[i]->run.id, group.facts[i]->run.version,
             group.tokens[i]);
  pass.facts = group.tokens;
  pass.missing = group.missing;
  pass.keep_stem = group.open;
  pass.pass_tokens = control.pass_tokens;

  const EngineInfo& engine = engine_->info();
  std::vector<NewRecord> made;
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
  const auto encoded = EncodeFactGroup(*engine_, pass, hooks);
  TRY(memory_->vault().Put(ns.id, made));  // also what was made before a failure
  if (encoded) {
    stats.encoded += encoded->made;
    stats.fact_tokens += encoded->fact_tokens;
    stats.computed_tokens += encoded->computed_tokens;
    return {};
  }
  std::vector<FactSeq> failed;
  for (size_t i = 0; i < group.facts.size(); ++i) {
    const FactSeq seq = group.facts[i]->seq;
    const bool is_made = std::any_of(made.begin(), made.end(), [&](const NewRecord& each) { return each.fact == seq; });
    if (group.missing[i] && !is_made) failed.push_back(seq);
  }
  stats.failed += failed.size();
  stats.last_error = encoded.error().message;
  return memory_->catalog().EncodeFailed(failed, encoded.error().message);
}

Result<EncodeStats> FactEncoder::Run(const NamespaceInfo& ns, EncodeWhat what, const EncodeControl& control) {
  Stopwatch watch;
  EncodeStats stats;
  if (!engine_->info().can_inject)
    return Fail(ErrorCode::kModelUnsupported,
                "this engine runs in text mode, where no KV is used: " + engine_->info().text_mode_reason);
  Plan plan;
  TRY(FindMissing(ns.id, what, plan));
  if (plan.missing.empty()) return stats;
  TRY(ScanLive(ns.id, plan));
  stats.facts = plan.live.size();
  TRY(window_.kind == WindowKind::kAnchored ? PlanRuns(ns.id, plan) : PlanSingles(ns.id, plan));
  std::stable_sort(plan.groups.begin(), plan.groups.end(),
                   [](const Group& a, const Group& b) { return a.priority > b.priority; });
  size_t todo = 0;
  for (const Group& group : plan.groups)
    todo += static_cast<size_t>(std::count(group.missing.begin(), group.missing.end(), true));
  if (control.progress && todo > 0) control.progress(0, todo);
  for (Group& group : plan.groups) {
    if (control.go_on && !control.go_on()) break;
    TRY_ASSIGN(const bool unchanged, ReadTexts(ns.id, group));
    if (!unchanged) continue;  // still queued: the next run plans with what is there then
    TRY(EncodeGroup(ns, group, control, stats));
    group = {};  // tokens of thousands of groups
    if (control.progress) control.progress(stats.encoded, todo);
  }
  stats.seconds = watch.Millis() / 1000.0;
  return stats;
}

Result<EncodeStats> FactEncoder::RunAll(EncodeWhat what, const EncodeControl& control) {
  std::vector<NamespaceInfo> todo;
  Catalog& catalog = memory_->catalog();
  if (what == EncodeWhat::kDue) {
    TRY_ASSIGN(const std::vector<QueueItem> due, catalog.DueFacts(limits::kListPage));
    std::unordered_set<NamespaceId> known;
    for (const QueueItem& item : due) {
      if (!known.insert(item.name_space).second) continue;
      TRY_ASSIGN(NamespaceInfo info, catalog.GetNamespace(item.name_space));
      todo.push_back(std::move(info));
    }
  } else {
    for (NamespaceId after = 0;;) {
      TRY_ASSIGN(std::vector<NamespaceInfo> page, catalog.ListNamespaces(after, limits::kListPage));
      if (page.empty()) break;
      after = page.back().id;
      todo.insert(todo.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
    }
    std::stable_sort(todo.begin(), todo.end(), [](const NamespaceInfo& a, const NamespaceInfo& b) {
      return a.last_active_us > b.last_active_us;
    });
  }
  EncodeStats sum;
  for (const NamespaceInfo& ns : todo) {
    if (control.go_on && !control.go_on()) break;
    TRY_ASSIGN(const EncodeStats stats, Run(ns, what, control));
    sum.facts += stats.facts;
    sum.encoded += stats.encoded;
    sum.failed += stats.failed;
    sum.fact_tokens += stats.fact_tokens;
    sum.computed_tokens += stats.computed_tokens;
    sum.seconds += stats.seconds;
    if (!stats.last_error.empty()) sum.last_error = stats.last_error;
  }
  return sum;
}

}  // namespace inferscale
