// A chat from memory. The facts in front of it stay as they are from turn to turn (a sticky plan), so that the engine
// keeps what it computed of the conversation; facts that become relevant later stand as text in front of the message
// that they are relevant for. The plan is made anew when a fact of it, or one that its KV has seen, was changed, hidden
// or deleted, and when the conversation grew until not all fits any more.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/chat_template.h"
#include "memory/answer.h"
#include "memory/memory.h"
#include "memory/prompt_builder.h"

namespace inferscale {

struct TurnAnswer {
  Answer answer;              // `ranked` has the facts recalled for this message; used and dropped are of a new plan
  size_t sticky = 0;          // facts in front of the conversation
  std::vector<size_t> added;  // ranks of the facts that this message brought
  bool new_plan = false;      // all facts were placed anew
};

class Conversation {
 public:
  // context's parts and memory outlive it. options.mode: kKv or kText. The conversation's name in the engine is derived
  // from the namespace and a number that no other conversation of this process has.
  Conversation(AnswerContext context, Memory& memory, std::string name_space, const AnswerOptions& options);

  // One turn. One call at a time. After an error the conversation is as before. kPromptTooLong: it does not fit the
  // context any more, even without facts.
  Result<TurnAnswer> Ask(std::string_view message, const std::function<void(std::string_view)>& on_text);
  // Ends the answer that is being made, if any; it counts as far as it came. From any thread.
  void Cancel();
  // Forgets what was said.
  void Restart();

  size_t turns() const { return plain_.size(); }

 private:
  // The facts in front, as they are from turn to turn.
  struct Plan {
    std::vector<RecalledFact> facts;  // best first
    std::vector<PromptFact> placed;   // the same, with their records pinned
  };
  // What one turn makes of the conversation; kept when it succeeds.
  struct Draft {
    std::shared_ptr<const Plan> plan;
    std::vector<RecalledFact> added;  // in messages
    std::vector<ChatMessage> said;    // as it stands in the prompt: messages with the facts they brought, answers
  };

  Result<bool> PlanHolds();
  Result<bool> RecordsHold(NamespaceId ns) const;
  // The message behind the facts of `ranked` that the prompt has not got yet; their ranks are turn.added.
  Result<std::string> WithNewFacts(std::string_view message, Draft& draft, TurnAnswer& turn) const;
  Result<BuiltPrompt> Build(std::string_view message, const Draft& draft) const;
  // A new plan with the prompt it gives; facts that do not fit are in neither.
  Result<BuiltPrompt> BuildAnew(std::string_view message, Draft& draft, TurnAnswer& turn) const;

  AnswerContext context_;
  Memory& memory_;
  std::string name_space_;
  AnswerOptions options_;
  Hash128 id_;
  Draft now_;                       // plan: null before the first turn
  std::vector<std::string> plain_;  // the user's messages alone

  std::mutex stream_mutex_;
  // Guarded.
  GenerateStream* stream_ = nullptr;
  bool cancelled_ = false;  // the answer under way, perhaps before it has a stream
};

}  // namespace inferscale
