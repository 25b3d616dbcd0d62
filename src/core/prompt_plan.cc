#include "core/prompt_plan.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

namespace {

using nlohmann::json;

constexpr uint32_t kPlanVersion = 1;
constexpr size_t kSaltBytes = 512;        // "inferscale:enc:v1:" and 64 hex digits take 82
constexpr size_t kPlanBytes = 32u << 20;  // a million token ids of up to 11 characters, and 10,000 spans of about 150
constexpr size_t kSpans = limits::kTopKMax + 1;  // every fact, and the prefix

tl::unexpected<Error> BadPlan(const std::string& what) {
  return Fail(ErrorCode::kInvalidArgument, "prompt plan: " + what);
}

uint64_t SumTokens(const std::vector<PlanSpan>& spans) {
  uint64_t sum = 0;
  for (const PlanSpan& span : spans) sum += span.n_tokens;
  return sum;
}

std::optional<uint64_t> GetUnsigned(const json& object, const char* name, uint64_t maximum) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto value = found->get<uint64_t>();
  return value <= maximum ? std::optional(value) : std::nullopt;
}

std::optional<Hash128> GetHash(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return Hash128::FromHex(found->get_ref<const std::string&>());
}

Result<PlanSpan> ParseSpan(const json& item) {
  if (!item.is_object()) return BadPlan("a span is not an object");
  const auto kind = item.find("kind");
  if (kind == item.end() || (*kind != "prefix" && *kind != "record")) return BadPlan("a span's kind is not known");
  const auto id = GetHash(item, "record_id");
  if (!id) return BadPlan("a span's record_id is not 32 hex digits");
  const auto version = GetUnsigned(item, "content_version", UINT32_MAX);
  const auto tokens = GetUnsigned(item, "n_tokens", limits::kContextTokensMax);
  if (!version || !tokens) return BadPlan("a span's content_version or n_tokens is not a number in range");
  return PlanSpan{*kind == "prefix" ? SpanKind::kPrefix : SpanKind::kRecord, *id, static_cast<uint32_t>(*version),
                  static_cast<uint32_t>(*tokens)};
}

Status ParseTokens(const json& object, Tokens& tokens) {
  const auto found = object.find("prompt_tokens");
  if (found == object.end() || !found->is_array()) return BadPlan("prompt_tokens is not an array");
  if (found->size() > limits::kContextTokensMax) return BadPlan("prompt_tokens is longer than any context");
  tokens.reserve(found->size());
  for (const json& item : *found) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT32_MAX) return BadPlan("a token id is out of range");
    tokens.push_back(item.get<TokenId>());
  }
  return {};
}

}  // namespace

uint32_t PromptPlan::InjectedTokens() const { return static_cast<uint32_t>(SumTokens(spans)); }

uint32_t PromptPlan::PrefixTokens() const {
  return !spans.empty() && spans[0].kind == SpanKind::kPrefix ? spans[0].n_tokens : 0;
}

Status CheckPlan(const PromptPlan& plan) {
  if (plan.version != kPlanVersion) return BadPlan("version " + std::to_string(plan.version) + " is not known");
  if (plan.prompt_tokens.empty()) return BadPlan("the prompt is empty");
  if (plan.prompt_tokens.size() > limits::kContextTokensMax) return BadPlan("the prompt is longer than any context");
  for (const TokenId token : plan.prompt_tokens)
    if (token < 0) return BadPlan("a token id is negative");
  for (size_t i = 0; i < plan.spans.size(); ++i) {
    if (plan.spans[i].n_tokens == 0) return BadPlan("span " + std::to_string(i) + " is empty");
    if (i > 0 && plan.spans[i].kind == SpanKind::kPrefix) return BadPlan("a prefix span is not the first span");
  }
  // One token at least is computed: its logits give the first token of the answer. 64 bits: no sum can wrap.
  if (SumTokens(plan.spans) >= plan.prompt_tokens.size())
    return BadPlan("spans hold " + std::to_string(SumTokens(plan.spans)) + " tokens, the prompt only " +
                   std::to_string(plan.prompt_tokens.size()) + ": the last token must be computed");
  if (plan.salt.size() > kSaltBytes || !IsValidUtf8(plan.salt)) return BadPlan("the salt is too long or not UTF-8");
  return {};
}

std::string PlanToJson(const PromptPlan& plan) {
  nlohmann::ordered_json spans = nlohmann::ordered_json::array();
  for (const PlanSpan& span : plan.spans)
    spans.push_back({{"kind", span.kind == SpanKind::kPrefix ? "prefix" : "record"},
                     {"record_id", span.record_id.Hex()},
                     {"content_version", span.content_version},
                     {"n_tokens", span.n_tokens}});
  const nlohmann::ordered_json object = {{"version", plan.version},
                                         {"model_key", plan.model_key.Hex()},
                                         {"spans", std::move(spans)},
                                         {"prompt_tokens", plan.prompt_tokens},
                                         {"salt", plan.salt}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<PromptPlan> PlanFromJson(std::string_view text) {
  if (text.size() > kPlanBytes)
    return Fail(ErrorCode::kTooLarge, "prompt plan: longer than " + std::to_string(kPlanBytes) + " bytes");
  const json object = json::parse(text, nullptr, false);  // no exceptions: a discarded value is not an object
  if (!object.is_object()) return Fail(ErrorCode::kInvalidJson, "prompt plan: not a JSON object");
  PromptPlan plan;
  const auto version = GetUnsigned(object, "version", UINT32_MAX);
  const auto model_key = GetHash(object, "model_key");
  if (!version || !model_key) return BadPlan("version or model_key is missing or malformed");
  plan.version = static_cast<uint32_t>(*version);
  plan.model_key = *model_key;
  const auto spans = object.find("spans");
  if (spans == object.end() || !spans->is_array()) return BadPlan("spans is not an array");
  if (spans->size() > kSpans) return BadPlan("more than " + std::to_string(kSpans) + " spans");
  for (const json& item : *spans) {
    TRY_ASSIGN(const PlanSpan span, ParseSpan(item));
    plan.spans.push_back(span);
  }
  TRY(ParseTokens(object, plan.prompt_tokens));
  const auto salt = object.find("salt");
  if (salt == object.end() || !salt->is_string()) return BadPlan("salt is not a string");
  plan.salt = salt->get<std::string>();
  TRY(CheckPlan(plan));
  return plan;
}

}  // namespace inferscale
