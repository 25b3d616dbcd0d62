// A chat from memory. The facts in front of it stay as they are from turn to turn (a sticky plan), so that the engine
// keeps what it computed of the conversation; facts that become relevant later stand as text in front of the message
// that they are relevant for. The plan is made anew when a fact of it was changed, hidden or deleted.
#pragma once

#include <functional>
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
  Answer answer;              // `ranked` has the facts recalled for this message
  size_t sticky = 0;          // facts in front of the conversation
  std::vector<size_t> added;  // ranks of the facts that this message brought
  bool new_plan = false;      // all facts were placed anew
};

class Conversation {
 public:
  // context's parts and memory outlive it. options.mode: kKv or kText. The conversation's name in the engine is derived
  // from the namespace and a number that no other conversation of this process has.
  Conversation(AnswerContext context, Memory& memory, std::string name_space, const AnswerOptions& options);

  // One turn. Thread-safe against Cancel only. After an error the conversation is as before. kPromptTooLong: it does
  // not fit the context any more, even without facts.
  Result<TurnAnswer> Ask(std::string_view message, const std::function<void(std::string_view)>& on_text);
  // Ends the answer that is being made; it counts as far as it came.
  void Cancel();
  // Forgets what was said.
  void Restart();

  size_t turns() const { return plain_.size(); }

 private:
  Result<bool> PlanHolds();
  Status MakePlan(const std::vector<RecalledFact>& ranked);
  // The message behind the facts of `ranked` that the prompt has not got yet; their ranks are turn.added.
  Result<std::string> WithNewFacts(std::string_view message, TurnAnswer& turn) const;
  Result<BuiltPrompt> Build(std::string_view message) const;
  bool Knows(FactSeq fact) const;

  AnswerContext context_;
  Memory& memory_;
  std::string name_space_;
  AnswerOptions options_;
  Hash128 id_;
  std::vector<ChatMessage> said_;   // as it stands in the prompt: messages with the facts they brought, answers
  std::vector<std::string> plain_;  // the user's messages alone
  bool has_plan_ = false;
  std::vector<RecalledFact> facts_;  // in front, best first
  std::vector<PromptFact> placed_;   // the same, with their records pinned
  std::vector<RecalledFact> added_;  // in messages

  std::mutex stream_mutex_;
  GenerateStream* stream_ = nullptr;  // guarded
};

}  // namespace inferscale
