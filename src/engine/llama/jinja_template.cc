#include "engine/llama/jinja_template.h"

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>
#include <jinja/value.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace inferscale {

namespace {

constexpr size_t kErrorBytes = 200;  // of the interpreter's message: it quotes the source

// The interpreter's message as one line.
std::string OneLine(std::string_view message) {
  std::string line(message.substr(0, kErrorBytes));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

jinja::value String(const std::string& text) { return jinja::mk_val<jinja::value_string>(text); }

jinja::value FixedDate(const jinja::func_args& args) {
  args.ensure_vals<jinja::value_string>();
  const std::string format = args.get_pos(0)->as_string().str();
  std::tm date{};
  date.tm_year = 2024 - 1900;
  date.tm_mon = 6;  // July
  date.tm_mday = 26;
  date.tm_wday = 5;  // a Friday
  date.tm_yday = 31 + 29 + 31 + 30 + 31 + 30 + 25;
  char buffer[256];
  return String(std::string(buffer, std::strftime(buffer, sizeof(buffer), format.c_str(), &date)));
}

// range() with a limit: the interpreter builds the whole list.
jinja::value BoundedRange(const jinja::func_args& args) {
  const size_t count = std::min<size_t>(args.count(), 2);  // bounds; a third argument is the step
  for (size_t i = 0; i < count; ++i) {
    const jinja::value bound = args.get_pos(i);
    const int64_t number = bound->is_numeric() ? bound->as_int() : 0;
    if (number > limits::kTemplateRange / 2 || number < -limits::kTemplateRange / 2) {
      throw jinja::raised_exception("range() beyond the limit");
    }
  }
  return jinja::global_builtins().at("range")(args);
}

// Parser and interpreter recurse: per bracket, per block, and per operator of an expression.
class DepthCheck {
 public:
  bool Accept(const jinja::token& token) {
    using Token = jinja::token;
    switch (token.t) {
      case Token::open_paren:
      case Token::open_square_bracket:
      case Token::open_curly_bracket:
        ++brackets_;
        break;
      case Token::close_paren:
      case Token::close_square_bracket:
      case Token::close_curly_bracket:
        brackets_ = std::max(brackets_ - 1, 0);
        break;
      case Token::open_statement:
      case Token::open_expression:
        tokens_ = 0;
        is_first_ = token.t == Token::open_statement;
        return true;
      case Token::identifier:
        if (is_first_) CountBlock(token.value);
        break;
      default:
        break;
    }
    // `not not …` and `- - …` nest by themselves.
    const bool prefix =
        token.t == Token::unary_operator || token.value == "not" || token.t == Token::additive_binary_operator;
    prefixes_ = prefix ? prefixes_ + 1 : 0;
    is_first_ = false;
    ++tokens_;
    const int depth = brackets_ + blocks_ + prefixes_;
    return depth <= limits::kTemplateNesting && tokens_ <= limits::kTemplateExpressionTokens;
  }

 private:
  void CountBlock(const std::string& keyword) {
    const bool opens =
        keyword == "if" || keyword == "for" || keyword == "macro" || keyword == "call" || keyword == "filter";
    if (opens) open_.push_back(1);
    if (keyword == "elif" && !open_.empty()) ++open_.back();  // the parser nests each elif in the one before
    if (opens || keyword == "elif") ++blocks_;
    if (keyword.starts_with("end") && keyword != "endset" && !open_.empty()) {
      blocks_ -= open_.back();
      open_.pop_back();
    }
  }

  int brackets_ = 0;
  int blocks_ = 0;
  int prefixes_ = 0;
  int tokens_ = 0;
  bool is_first_ = false;
  std::vector<int> open_;  // of each open block: 1 and its elifs
};

// Runs work, which may throw anything.
template <class Work>
auto Guarded(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kModelUnsupported, "the model's chat template failed: " + OneLine(e.what()));
  } catch (...) {
    return Fail(ErrorCode::kModelUnsupported, "the model's chat template failed");
  }
}

jinja::value MessageList(std::span<const ChatMessage> messages) {
  auto list = jinja::mk_val<jinja::value_array>();
  for (const ChatMessage& message : messages) {
    auto object = jinja::mk_val<jinja::value_object>();
    object->insert("role", String(message.role));
    object->insert("content", String(message.content));
    list->push_back(object);
  }
  return list;
}

}  // namespace

struct JinjaTemplate::Program {
  jinja::program program;
};

JinjaTemplate::JinjaTemplate(std::unique_ptr<const Program> program, std::string bos_token, std::string eos_token)
    : program_(std::move(program)), bos_token_(std::move(bos_token)), eos_token_(std::move(eos_token)) {}

JinjaTemplate::~JinjaTemplate() = default;

Result<std::unique_ptr<JinjaTemplate>> JinjaTemplate::Make(std::string_view source, std::string bos_token,
                                                           std::string eos_token) {
  if (source.size() > limits::kTemplateBytes) {
    return Fail(ErrorCode::kModelUnsupported, "the model's chat template is over 256 KiB");
  }
  return Guarded([&]() -> Result<std::unique_ptr<JinjaTemplate>> {
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(std::string(source));
    DepthCheck depth;
    for (const jinja::token& token : tokens.tokens) {
      if (!depth.Accept(token)) {
        return Fail(ErrorCode::kModelUnsupported, "the model's chat template is nested too deeply");
      }
    }
    auto program = std::make_unique<const Program>(Program{jinja::parse_from_tokens(tokens)});
    return std::unique_ptr<JinjaTemplate>(
        new JinjaTemplate(std::move(program), std::move(bos_token), std::move(eos_token)));
  });
}

Result<std::string> JinjaTemplate::Render(std::span<const ChatMessage> messages) const {
  size_t bytes = 0;
  for (const ChatMessage& message : messages) bytes += message.role.size() + message.content.size();
  if (messages.size() > limits::kMessages || bytes > limits::kRenderedBytes) {
    return Fail(ErrorCode::kTooLarge, "the conversation has more than 10,000 messages or 64 MiB");
  }
  return Guarded([&]() -> Result<std::string> {
    jinja::context context;
    context.current_time = 0;
    context.set_val("messages", MessageList(messages));
    context.set_val("bos_token", String(bos_token_));
    context.set_val("eos_token", String(eos_token_));
    context.set_val("add_generation_prompt", jinja::mk_val<jinja::value_bool>(true));
    context.set_val("enable_thinking", jinja::mk_val<jinja::value_bool>(false));
    context.set_val("strftime_now", jinja::mk_val<jinja::value_func>("strftime_now", FixedDate));
    context.set_val("range", jinja::mk_val<jinja::value_func>("range", BoundedRange));
    std::string rendered;
    for (const jinja::statement_ptr& statement : program_->program.body) {
      const jinja::value part = statement->execute(context);
      rendered += jinja::render_string_parts(jinja::runtime::gather_string_parts(part));
      if (rendered.size() > limits::kRenderedBytes) {
        return Fail(ErrorCode::kTooLarge, "the chat template wrote more than 64 MiB");
      }
    }
    return rendered;
  });
}

}  // namespace inferscale
