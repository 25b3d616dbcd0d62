#include "memory/conversation.h"

#include <algorithm>
#include <atomic>
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
  said_.clear();
  plain_.clear();
  facts_.clear();
  placed_.clear();
  added_.clear();
  has_plan_ = false;
}

void Conversation::Cancel() {
  const std::lock_guard lock(stream_mutex_);
  if (stream_ != nullptr) stream_->Cancel();
}

bool Conversation::Knows(FactSeq fact) const {
  const auto is = [&](const RecalledFact& each) { return each.key == fact; };
  return std::any_of(facts_.begin(), facts_.end(), is) || std::any_of(added_.begin(), added_.end(), is);
}

// Whether every fact that the prompt has is still there, unchanged and not hidden.
Result<bool> Conversation::PlanHolds() {
  if (!has_plan_) return false;
  std::vector<FactSeq> seqs;
  std::unordered_map<FactSeq, uint32_t> versions;
  for (const auto* facts : {&facts_, &added_})
    for (const RecalledFact& fact : *facts) {
      seqs.push_back(fact.key);
      versions[fact.key] = fact.version;
    }
  if (seqs.empty()) return true;
  TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
  TRY_ASSIGN(const std::vector<FactRow> rows, memory_.catalog().GetFacts(ns.id, seqs));
  const Micros now = NowMicros();
  return rows.size() == seqs.size() && std::all_of(rows.begin(), rows.end(), [&](const FactRow& row) {
           return row.version == versions.at(row.seq) && row.superseded_by.empty() &&
                  (!row.expires_us || *row.expires_us > now);
         });
}

Status Conversation::MakePlan(const std::vector<RecalledFact>& ranked) {
  facts_ = ranked;
  added_.clear();
  for (size_t i = 0; i < plain_.size(); ++i) said_[2 * i].content = plain_[i];
  TRY_ASSIGN(placed_, PinRecords(context_, facts_, options_));
  has_plan_ = true;
  return {};
}

Result<std::string> Conversation::WithNewFacts(std::string_view message, TurnAnswer& turn) const {
  std::vector<FactSeq> seqs;
  const std::vector<RecalledFact>& ranked = turn.answer.ranked;
  for (size_t rank = 0; rank < ranked.size(); ++rank) {
    if (Knows(ranked[rank].key)) continue;
    turn.added.push_back(rank);
    seqs.push_back(ranked[rank].key);
  }
  if (seqs.empty()) return std::string(message);
  TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
  TRY_ASSIGN(const std::vector<FactRow> rows, memory_.catalog().GetFacts(ns.id, seqs));
  std::string text(kNewFacts);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)  // best last
    text += FactPromptText(row->text, row->date);
  return text + "\n" + std::string(message);
}

Result<BuiltPrompt> Conversation::Build(std::string_view message) const {
  TRY_ASSIGN(const Tokens after, context_.layout.AfterFacts("", said_, message));
  const PromptOptions prompt{options_.tail, options_.max_tokens, options_.mode != AnswerMode::kText};
  return BuildPrompt(context_.engine.info(), context_.layout.header(), placed_, prompt, after);
}

Result<TurnAnswer> Conversation::Ask(std::string_view message, const std::function<void(std::string_view)>& on_text) {
  TurnAnswer turn;
  Stopwatch watch;
  TRY_ASSIGN(turn.answer.ranked, context_.source.Recall(message, options_.top_k));
  turn.answer.retrieve_ms = watch.Millis();
  TRY_ASSIGN(const bool holds, PlanHolds());
  std::string text(message);
  if (holds) {
    TRY_ASSIGN(text, WithNewFacts(message, turn));
  } else {
    TRY(MakePlan(turn.answer.ranked));
    turn.new_plan = true;
  }
  turn.answer.load_ms = watch.Millis() - turn.answer.retrieve_ms;
  auto prompt = Build(text);
  // With what it has gathered it does not fit any more: only what matters for this message then.
  const bool crowded = prompt ? !prompt->dropped.empty() && !turn.new_plan
                              : prompt.error().code == ErrorCode::kPromptTooLong && !turn.new_plan;
  if (crowded) {
    TRY(MakePlan(turn.answer.ranked));
    turn.added.clear();
    turn.new_plan = true;
    text = std::string(message);
    prompt = Build(text);
  }
  TRY(prompt);
  turn.sticky = prompt->used.size();
  GenerationOptions generation;
  generation.max_tokens = options_.max_tokens;
  generation.conversation = id_;
  generation.on_stream = [this](GenerateStream* stream) {
    const std::lock_guard lock(stream_mutex_);
    stream_ = stream;
  };
  TRY(GenerateAnswer(context_.engine, std::move(*prompt), generation, watch.Millis(), on_text, turn.answer));
  for (const size_t rank : turn.added) added_.push_back(turn.answer.ranked[rank]);
  said_.push_back({"user", std::move(text)});
  said_.push_back({"assistant", turn.answer.text});
  plain_.emplace_back(message);
  return turn;
}

}  // namespace inferscale
