#include "memory/conversation.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <unordered_map>

#include "base/clock.h"
#include "core/fact.h"
#include "memory/generation.h"
#include "memory/recall.h"

namespace inferscale {

namespace {

// Facts in front of a message: lines as everywhere, framed as data.
constexpr std::string_view kNewFacts = "More memories:\n";

Hash128 NewConversationId(std::string_view name_space) {
  static std::atomic<uint64_t> number{1};
  return Hasher().Str("conversation").Str(name_space).U64(number++).Finish();
}

}  // namespace

Conversation::Conversation(AnswerContext context, Memory& memory, std::string name_space, const AnswerOptions& options)
    : context_(context),
      memory_(memory),
      name_space_(std::move(name_space)),
      options_(options),
      id_(NewConversationId(name_space_)) {}

void Conversation::Restart() {
  id_ = NewConversationId(name_space_);
  now_ = {};
  plain_.clear();
}

void Conversation::Cancel() {
  const std::lock_guard lock(stream_mutex_);
  cancelled_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

// Whether the records in front are still the usable ones: one that saw a fact that is gone is not.
Result<bool> Conversation::RecordsHold(NamespaceId ns) const {
  std::vector<FactSeq> seqs;
  std::unordered_map<FactSeq, Hash128> windows;
  for (const PromptFact& placed : now_.plan->placed) {
    if (placed.record == nullptr) continue;
    const FactSeq seq = now_.plan->facts[placed.fact].key;
    seqs.push_back(seq);
    windows[seq] = placed.record->key.window_digest;
  }
  if (seqs.empty()) return true;
  TRY_ASSIGN(const std::vector<KvRow> rows,
             memory_.catalog().UsableRecords(ns, context_.engine.info().model_key, seqs));
  return rows.size() == seqs.size() && std::all_of(rows.begin(), rows.end(), [&](const KvRow& row) {
           return row.window_digest == windows.at(row.fact);
         });
}

// Whether every fact that the prompt has is still there, unchanged and not hidden.
Result<bool> Conversation::PlanHolds() {
  if (now_.plan == nullptr) return false;
  std::vector<FactSeq> seqs;
  std::unordered_map<FactSeq, uint32_t> versions;
  const std::vector<RecalledFact>* added = &now_.added;
  for (const std::vector<RecalledFact>* facts : {&now_.plan->facts, added})
    for (const RecalledFact& fact : *facts) {
      seqs.push_back(fact.key);
      versions[fact.key] = fact.version;
    }
  if (seqs.empty()) return true;
  const auto ns = memory_.Find(name_space_);
  if (!ns && ns.error().code == ErrorCode::kNotFound) return false;  // deleted
  TRY(ns);
  TRY_ASSIGN(const std::vector<FactRow> rows, memory_.catalog().GetFacts(ns->id, seqs));
  const Micros now = NowMicros();
  const bool same = rows.size() == seqs.size() && std::all_of(rows.begin(), rows.end(), [&](const FactRow& row) {
                      return row.version == versions.at(row.seq) && row.superseded_by.empty() &&
                             (!row.expires_us || *row.expires_us > now);
                    });
  if (!same) return false;
  return RecordsHold(ns->id);
}

Result<std::string> Conversation::WithNewFacts(std::string_view message, Draft& draft, TurnAnswer& turn) const {
  const auto known = [&](FactSeq fact) {
    const auto is = [&](const RecalledFact& each) { return each.key == fact; };
    return std::any_of(draft.plan->facts.begin(), draft.plan->facts.end(), is) ||
           std::any_of(draft.added.begin(), draft.added.end(), is);
  };
  std::vector<FactSeq> seqs;
  const std::vector<RecalledFact>& ranked = turn.answer.ranked;
  for (size_t rank = 0; rank < ranked.size(); ++rank) {
    if (known(ranked[rank].key)) continue;
    turn.added.push_back(rank);
    seqs.push_back(ranked[rank].key);
  }
  if (seqs.empty()) return std::string(message);
  for (const size_t rank : turn.added) draft.added.push_back(ranked[rank]);
  TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
  TRY_ASSIGN(const std::vector<FactRow> rows, memory_.catalog().GetFacts(ns.id, seqs));
  std::string text(kNewFacts);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)  // best last
    text += FactPromptText(row->text, row->date);
  return text + "\n" + std::string(message);
}

Result<BuiltPrompt> Conversation::Build(std::string_view message, const Draft& draft) const {
  TRY_ASSIGN(const Tokens after, context_.layout.AfterFacts("", draft.said, message));
  const PromptOptions prompt{options_.tail, options_.max_tokens, options_.mode != AnswerMode::kText};
  return BuildPrompt(context_.engine.info(), context_.layout.header(), draft.plan->placed, prompt, after);
}

Result<BuiltPrompt> Conversation::BuildAnew(std::string_view message, Draft& draft, TurnAnswer& turn) const {
  turn.new_plan = true;
  turn.added.clear();
  draft.added.clear();
  for (size_t i = 0; i < plain_.size(); ++i) draft.said[2 * i].content = plain_[i];
  auto plan = std::make_shared<Plan>();
  plan->facts = turn.answer.ranked;
  TRY_ASSIGN(plan->placed, PinRecords(context_, plan->facts, options_));
  draft.plan = plan;
  TRY_ASSIGN(BuiltPrompt prompt, Build(message, draft));
  // The worst ranked did not fit. Later they may come with a message.
  plan->placed.resize(plan->placed.size() - prompt.dropped.size());
  plan->facts.resize(plan->placed.size());
  return prompt;
}

Result<TurnAnswer> Conversation::Ask(std::string_view message, const std::function<void(std::string_view)>& on_text) {
  {
    const std::lock_guard lock(stream_mutex_);
    cancelled_ = false;
  }
  TurnAnswer turn;
  Draft draft = now_;
  Stopwatch watch;
  TRY_ASSIGN(turn.answer.ranked, context_.source.Recall(message, options_.top_k));
  turn.answer.retrieve_ms = watch.Millis();
  TRY_ASSIGN(const bool holds, PlanHolds());
  std::string text(message);
  std::optional<BuiltPrompt> prompt;
  if (holds) {
    TRY_ASSIGN(text, WithNewFacts(message, draft, turn));
    auto built = Build(text, draft);
    if (!built && built.error().code != ErrorCode::kPromptTooLong) return tl::unexpected(std::move(built).error());
    if (built && built->dropped.empty()) prompt = std::move(*built);
  }
  if (!prompt) {  // or with all that was gathered it does not fit any more: only what matters for this message then
    text = message;
    TRY_ASSIGN(prompt, BuildAnew(text, draft, turn));
  }
  turn.answer.load_ms = watch.Millis() - turn.answer.retrieve_ms;
  turn.sticky = prompt->used.size();
  GenerationOptions generation;
  generation.max_tokens = options_.max_tokens;
  generation.conversation = id_;
  generation.on_stream = [this](GenerateStream* stream) {
    const std::lock_guard lock(stream_mutex_);
    stream_ = stream;
    if (stream_ != nullptr && cancelled_) stream_->Cancel();
  };
  TRY(GenerateAnswer(context_.engine, std::move(*prompt), generation, watch.Millis(), on_text, turn.answer));
  if (!turn.new_plan) turn.answer.used.clear();
  draft.said.push_back({"user", std::move(text)});
  draft.said.push_back({"assistant", turn.answer.text});
  now_ = std::move(draft);
  plain_.emplace_back(message);
  return turn;
}

}  // namespace inferscale
