#include "engine/prompt_layout.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"

namespace inferscale {

namespace {

// What stands in a slot while the template is rendered. Letters and digits only: templates that trim, escape or
// capitalise leave it as it is, and equal lengths keep one from being found inside another.
std::string SlotMark(size_t index) {
  std::string number = std::to_string(index);
  return "InferScaleSlot" + std::string(8 - std::min<size_t>(number.size(), 8), '0') + number + "End";
}

constexpr std::string_view kSystemTextEnd = "\n\n";  // between an application's system text and our instructions

// Harmless, and with what templates change: a quote, a character beyond ASCII, a line break after each.
constexpr std::array<std::string_view, 3> kSampleFacts = {
    "[2023-05-08] Maria adopted a grey cat named Miso.",
    "[2023-06-01] Jonas paid 42.50 euros for a concert in Köln and said \"worth it\"",
    "Maria's sister lives in Porto.",
};

std::string Quoted(const Tokenizer& tokenizer, const Tokens& tokens, size_t at) {
  std::string text;
  for (size_t i = at; i < std::min(at + 3, tokens.size()); ++i) {
    if (i > at) text += "|";
    text += tokenizer.Piece(tokens[i]);
  }
  return "'" + text + "'";
}

Status CheckHistory(std::span<const ChatMessage> history, PromptForm form) {
  if (history.size() > limits::kMessages) {
    return Fail(ErrorCode::kTooLarge, "the conversation has more than 10,000 messages");
  }
  const bool has_system = std::any_of(history.begin(), history.end(), [](const auto& m) { return m.role == "system"; });
  if (has_system) return Fail(ErrorCode::kInvalidArgument, "a conversation's history holds no system messages");
  if (form != PromptForm::kSystemTurn && !history.empty() && history.front().role != "user") {
    return Fail(ErrorCode::kInvalidArgument, "this model's conversations must begin with a user's message");
  }
  return {};
}

void Append(const Tokens& tokens, Tokens& out) { out.insert(out.end(), tokens.begin(), tokens.end()); }

}  // namespace

struct PromptLayout::Sample {
  std::string system_text;
  std::string rest;
  std::vector<ChatMessage> history;
  std::string question = "What is the name of Maria's cat?";
};

PromptLayout PromptLayout::Make(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                Instructions instructions) {
  INFERSCALE_ASSERT(instructions.text.ends_with('\n'));
  PromptLayout layout(tokenizer, chat_template, std::move(instructions));
  std::string note = "the model has no chat template";
  if (chat_template != nullptr) {
    note.clear();
    std::optional<PromptForm> usable;
    for (const PromptForm form : {PromptForm::kSystemTurn, PromptForm::kFirstUserTurn}) {
      Status status = layout.TryForm(form, Border::kSpaces);
      if (status) {
        usable = usable.value_or(form);
        status = layout.Check();
        if (!status && layout.TryForm(form, Border::kWhiteSpace) && layout.Check()) status = {};
      }
      layout.note_ = note;
      if (status) return layout;
      note += (note.empty() ? "" : "; ") + status.error().message;
    }
    layout.note_ = note;
    if (usable && layout.TryForm(*usable, Border::kSpaces)) return layout;
  }
  const Status plain = layout.TryForm(PromptForm::kPlain, Border::kSpaces);
  INFERSCALE_ASSERT(plain.has_value());  // it depends on nothing that could fail
  layout.note_ = note;
  return layout;
}

Status PromptLayout::TryForm(PromptForm form, Border border) {
  form_ = form;
  border_ = border;
  const std::string_view where =
      form == PromptForm::kSystemTurn ? "facts in the system block" : "facts in the user's turn";
  const std::array<ChatMessage, 2> earlier = {ChatMessage{"user", ""}, ChatMessage{"assistant", ""}};
  auto alone = Split({});
  if (!alone) return Wrap(std::move(alone).error(), where);
  auto later = Split(earlier);
  if (!later) return Wrap(std::move(later).error(), where);
  if (alone->front() != later->front()) {
    return Wrap({ErrorCode::kModelUnsupported, "the template's opening depends on the history"}, where);
  }
  opening_ = alone->front();
  opening_gap_ = MakeGap(opening_, /*is_last=*/false);
  gaps_.clear();
  for (size_t i = 1; i < alone->size(); ++i) gaps_.push_back(MakeGap((*alone)[i], i + 1 == alone->size()));
  header_ = Header("");
  return {};
}

PromptLayout::Gap PromptLayout::MakeGap(std::string_view text, bool is_last) const {
  Gap gap;
  const std::string_view white = text.substr(0, text.find_first_not_of(" \t\r\n"));
  gap.lead = white.substr(0, white.find_last_of("\r\n") + 1);  // npos + 1 == 0: no line break
  text.remove_prefix(gap.lead.size());
  if (!is_last) {
    const size_t end = text.find_last_not_of(border_ == Border::kSpaces ? " " : " \t\r\n") + 1;
    gap.trail = text.substr(end);
    text = text.substr(0, end);
  }
  gap.tokens = tokenizer_->Markup(text);
  return gap;
}

// Templates spell BOS, or leave it to the tokenizer: there is exactly one in either case.
std::string PromptLayout::WithBos(std::string rendered) const {
  const std::string bos = tokenizer_->bos_text();
  return rendered.starts_with(bos) ? rendered : bos + rendered;
}

// The conversation with a mark in the place of every text.
std::vector<ChatMessage> PromptLayout::Slots(std::span<const ChatMessage> history) const {
  std::vector<ChatMessage> slots;
  if (form_ == PromptForm::kSystemTurn) slots.push_back({"system", SlotMark(0)});
  for (const ChatMessage& message : history) slots.push_back({message.role, SlotMark(slots.size())});
  slots.push_back({"user", SlotMark(slots.size())});
  return slots;
}

// Template text before, between and behind the slots: [slots + 1].
Result<std::vector<std::string>> PromptLayout::Split(std::span<const ChatMessage> history) const {
  if (form_ == PromptForm::kPlain) {
    std::vector<std::string> parts(history.size() + 2);
    parts.front() = tokenizer_->bos_text();
    return parts;
  }
  const std::vector<ChatMessage> slots = Slots(history);
  TRY_ASSIGN(std::string rendered, template_->Render(slots));
  const std::string whole = WithBos(std::move(rendered));
  std::vector<std::string> parts;
  size_t at = 0;
  for (const ChatMessage& slot : slots) {
    const size_t found = whole.find(slot.content, at);
    if (found == std::string::npos || whole.find(slot.content) != found ||
        whole.find(slot.content, found + 1) != std::string::npos) {
      return Fail(ErrorCode::kModelUnsupported,
                  "the template leaves out, repeats or moves the text of a " + slot.role + " message");
    }
    parts.push_back(whole.substr(at, found - at));
    at = found + slot.content.size();
  }
  parts.push_back(whole.substr(at));
  return parts;
}

// What goes into the slots, without the header and the facts, which stand before the first content.
std::vector<std::string> PromptLayout::Contents(std::string_view rest, std::span<const ChatMessage> history,
                                                std::string_view question) const {
  std::vector<std::string> contents;
  if (form_ == PromptForm::kSystemTurn) contents.emplace_back(rest);
  std::string before = form_ == PromptForm::kSystemTurn ? "" : std::string(rest) + (rest.empty() ? "" : "\n\n");
  const auto add = [&](bool is_user, std::string_view text) {
    std::string content(text);
    const bool labelled = form_ == PromptForm::kPlain || (form_ == PromptForm::kFirstUserTurn && contents.empty());
    if (is_user && labelled) content = instructions_.question_label + content;
    if (form_ == PromptForm::kPlain) {
      content = is_user ? content + "\n" + instructions_.answer_label : " " + content + "\n\n";
    }
    contents.push_back(std::exchange(before, "") + content);
  };
  for (const ChatMessage& message : history) add(message.role == "user", message.content);
  add(true, question);
  return contents;
}

Tokens PromptLayout::Header(std::string_view system_text) const {
  std::string text = opening_gap_.trail;
  if (!system_text.empty()) text += std::string(system_text) + std::string(kSystemTextEnd);
  Tokens header = tokenizer_->Text(opening_gap_.lead);
  Append(opening_gap_.tokens, header);
  Append(tokenizer_->Text(text + instructions_.text), header);
  return header;
}

Tokens PromptLayout::Fact(std::string_view text) const { return tokenizer_->Text(std::string(text) + "\n"); }

Result<Tokens> PromptLayout::AfterFacts(std::string_view rest_of_system_text, std::span<const ChatMessage> history,
                                        std::string_view question) const {
  TRY(CheckHistory(history, form_));
  std::vector<Gap> made;
  if (!history.empty()) {
    TRY_ASSIGN(const std::vector<std::string> parts, Split(history));
    if (parts.front() != opening_) {
      return Fail(ErrorCode::kModelUnsupported, "the template's opening depends on the conversation");
    }
    for (size_t i = 1; i < parts.size(); ++i) made.push_back(MakeGap(parts[i], i + 1 == parts.size()));
  }
  const std::vector<Gap>& gaps = history.empty() ? gaps_ : made;
  const std::vector<std::string> contents = Contents(rest_of_system_text, history, question);
  INFERSCALE_ASSERT(contents.size() == gaps.size());
  Tokens out;
  std::string before;  // spaces of the template text before
  for (size_t i = 0; i < contents.size(); ++i) {
    Append(tokenizer_->Text(before + contents[i] + gaps[i].lead), out);
    Append(gaps[i].tokens, out);
    before = gaps[i].trail;
  }
  return out;
}

// The prompt as one string, as the template writes it.
Result<std::string> PromptLayout::Whole(const Sample& sample) const {
  std::string body = sample.system_text;
  if (!body.empty()) body += kSystemTextEnd;
  body += instructions_.text;
  for (const std::string_view fact : kSampleFacts) body += std::string(fact) + "\n";
  std::vector<std::string> contents = Contents(sample.rest, sample.history, sample.question);
  contents.front() = body + contents.front();
  if (form_ == PromptForm::kPlain) {
    std::string whole = tokenizer_->bos_text();
    for (const std::string& content : contents) whole += content;
    return whole;
  }
  // A mark keeps the last fact's line break from being trimmed.
  const std::string end_mark = SlotMark(contents.size());
  if (form_ == PromptForm::kSystemTurn && sample.rest.empty()) contents.front() += end_mark;
  std::vector<ChatMessage> messages = Slots(sample.history);
  for (size_t i = 0; i < messages.size(); ++i) messages[i].content = contents[i];
  TRY_ASSIGN(std::string whole, template_->Render(messages));
  if (const size_t mark = whole.find(end_mark); mark != std::string::npos) whole.erase(mark, end_mark.size());
  return WithBos(std::move(whole));
}

Status PromptLayout::CheckSample(const Sample& sample) const {
  TRY_ASSIGN(const std::string whole, Whole(sample));
  const Tokens joint = tokenizer_->Markup(whole);
  Tokens pieces = Header(sample.system_text);
  for (const std::string_view fact : kSampleFacts) Append(Fact(fact), pieces);
  TRY_ASSIGN(const Tokens after, AfterFacts(sample.rest, sample.history, sample.question));
  Append(after, pieces);
  if (pieces == joint) return {};
  const size_t common = std::min(pieces.size(), joint.size());
  size_t at = 0;
  while (at < common && pieces[at] == joint[at]) ++at;
  return Fail(ErrorCode::kMismatch, "the prompt in pieces differs from the whole at token " + std::to_string(at) +
                                        ": " + Quoted(*tokenizer_, pieces, at) + " and " +
                                        Quoted(*tokenizer_, joint, at));
}

Status PromptLayout::Check() const {
  const std::vector<ChatMessage> earlier = {{"user", "Who is Jonas?"}, {"assistant", "A friend of Maria."}};
  for (const std::string system_text : {"", "You work for a pet shop."}) {
    for (const std::string rest : {"", "Answer in one sentence."}) {
      TRY(CheckSample({.system_text = system_text, .rest = rest}));
      TRY(CheckSample({.system_text = system_text, .rest = rest, .history = earlier}));
    }
  }
  return {};
}

}  // namespace inferscale
