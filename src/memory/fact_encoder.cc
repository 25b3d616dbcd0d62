#include "memory/fact_encoder.h"

#include <algorithm>
#include <unordered_set>

#include "base/clock.h"
#include "core/fact.h"
#include "memory/fact_encoder_impl.h"

namespace inferscale {

namespace {

// Ordinals have gaps where turns went with their facts, or where the application counts its own way. So many ordinals
// are looked through for one turn: 6,400 for the widest window.
constexpr uint64_t kTurnGaps = 32;

// Failed lately: not to be tried again before its time.
bool BacksOff(const QueueItem& item, Micros now) { return item.attempts > 0 && item.due_us > now; }

// Whether a namespace's queue, those that back off left out, is to be worked on: a full run waits, something is wanted
// or tried again, or nothing new has come for the delay.
bool IsReady(const std::vector<QueueItem>& queued, size_t run_facts, Micros now) {
  if (queued.size() >= run_facts) return true;
  bool waits = false, due = false;
  for (const QueueItem& item : queued) {
    if (item.due_us <= now && (item.priority > 0 || item.attempts > 0)) return true;
    waits = waits || item.due_us > now;
    due = due || item.due_us <= now;
  }
  return due && !waits;
}

}  // namespace

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
  TRY_ASSIGN(std::vector<QueueItem> queued, catalog.QueuedFacts(ns));
  const Micros now = NowMicros();
  if (what == EncodeWhat::kDue) std::erase_if(queued, [now](const QueueItem& item) { return BacksOff(item, now); });
  const auto run_facts = static_cast<size_t>(window_.kind == WindowKind::kAnchored ? window_.count : 1);
  if (queued.empty() || (what == EncodeWhat::kDue && !IsReady(queued, run_facts, now))) return {};
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
  const auto wanted = static_cast<uint64_t>(window_.count);
  for (const uint64_t back : {wanted, kTurnGaps * wanted}) {
    const uint64_t reach = std::min(source->ordinal, back);
    TRY_ASSIGN(group.turns, memory_->catalog().GetTurns(ns, source->ordinal - reach, reach));
    if (group.turns.size() >= wanted || reach == source->ordinal) break;
  }
  if (group.turns.size() > wanted)
    group.turns.erase(group.turns.begin(), group.turns.end() - static_cast<std::ptrdiff_t>(wanted));
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
  const auto missing = [](const Group& group) {
    return static_cast<size_t>(std::count(group.missing.begin(), group.missing.end(), true));
  };
  size_t done = 0, todo = 0;
  for (const Group& group : plan.groups) todo += missing(group);
  if (control.progress && todo > 0) control.progress(0, todo);
  for (Group& group : plan.groups) {
    if (control.go_on && !control.go_on()) break;
    done += missing(group);  // a pass may also make again what others of the group need: records that were evicted
    TRY_ASSIGN(const bool unchanged, ReadTexts(ns.id, group));
    if (!unchanged) continue;  // still queued: the next run plans with what is there then
    TRY(EncodeGroup(ns, group, control, stats));
    group = {};  // tokens of thousands of groups
    if (control.progress) control.progress(done, todo);
  }
  stats.seconds = watch.Millis() / 1000.0;
  return stats;
}

Result<std::vector<NamespaceInfo>> FactEncoder::AllNamespaces() const {
  std::vector<NamespaceInfo> all;
  for (NamespaceId after = 0;;) {
    TRY_ASSIGN(std::vector<NamespaceInfo> page, memory_->catalog().ListNamespaces(after, limits::kListPage));
    if (page.empty()) return all;
    after = page.back().id;
    all.insert(all.end(), std::make_move_iterator(page.begin()), std::make_move_iterator(page.end()));
  }
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
    TRY_ASSIGN(todo, AllNamespaces());
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
