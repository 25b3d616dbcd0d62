#include "memory/fact_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "core/strict_json.h"

namespace inferscale {

namespace {

// Text that is stored and shown: UTF-8 of bounded size without NUL.
Status CheckString(std::string_view text, std::string_view field, size_t max_bytes) {
  if (text.size() > max_bytes)
    return Fail(ErrorCode::kTooLarge,
                fmt::format("\"{}\" has {} bytes, more than {}: shorten it", field, text.size(), max_bytes));
  if (const size_t at = FirstInvalidUtf8(text); at != std::string_view::npos)
    return Fail(ErrorCode::kInvalidUtf8, fmt::format("\"{}\" is not valid UTF-8 at byte {}", field, at));
  if (text.find('\0') != std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" holds a NUL character: remove it", field));
  return {};
}

Status CheckNoNul(std::string_view text) {
  if (text.find('\0') == std::string_view::npos) return {};
  return Fail(ErrorCode::kInvalidArgument, "\"metadata\" holds a NUL character: remove it");
}

// Strings and keys without NUL, objects and lists not too deep. Recurses as deep as is allowed.
Status CheckValue(const nlohmann::json& value, int depth) {
  if (value.is_string()) return CheckNoNul(value.get_ref<const std::string&>());
  if (!value.is_structured()) return {};
  if (depth > limits::kMetadataNesting)
    return Fail(ErrorCode::kTooLarge,
                fmt::format("\"metadata\" has lists and objects nested more than {} deep: make it "
                            "flatter",
                            limits::kMetadataNesting));
  for (const auto& [key, each] : value.items()) {
    if (value.is_object()) TRY(CheckNoNul(key));
    TRY(CheckValue(each, depth + 1));
  }
  return {};
}

Status CheckMetadata(std::string_view metadata) {
  if (metadata.empty()) return {};
  TRY(CheckString(metadata, "metadata", limits::kMetadataBytes));
  const Result<nlohmann::json> parsed = ParseStrictJson(metadata);
  if (!parsed) return Wrap(parsed.error(), "\"metadata\"");
  if (!parsed->is_object())
    return Fail(ErrorCode::kInvalidJson, "\"metadata\" is not a JSON object: write one like {\"source\": \"chat\"}");
  return CheckValue(*parsed, 1);
}

}  // namespace

Status CheckFactText(std::string_view text) {
  if (text.size() > limits::kFactBytes)
    return Fail(ErrorCode::kTooLarge, fmt::format("\"text\" has {} bytes, more than {}: split it into several facts",
                                                  text.size(), limits::kFactBytes));
  TRY(CheckString(text, "text", limits::kFactBytes));
  if (text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, "\"text\" is empty: write something");
  return {};
}

Status CheckGivenId(std::string_view id, std::string_view field) {
  if (id.empty())
    return Fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is empty: leave it out or give it a value", field));
  TRY(CheckString(id, field, limits::kGivenIdBytes));
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(id.begin(), id.end(), is_control))
    return Fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" holds a control character: remove it", field));
  return {};
}

Status CheckGivenText(std::string_view text, std::string_view field) {
  return CheckString(text, field, limits::kNamespaceBytes);
}

Status CheckQuery(std::string_view query) {
  TRY(CheckString(query, "query", limits::kQuestionBytes));
  if (query.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, "the question is empty: ask something");
  return {};
}

Status CheckFactInput(const FactInput& fact) {
  TRY(CheckFactText(fact.text));
  if (!fact.id.empty()) TRY(CheckGivenId(fact.id, "id"));
  if (!fact.turn.empty()) TRY(CheckGivenId(fact.turn, "turn"));
  for (const std::string& id : fact.supersedes) TRY(CheckGivenId(id, "supersedes"));
  TRY(CheckString(fact.supersede_key, "supersede_key", limits::kKeyBytes));
  TRY(CheckString(fact.scope.user_id, "user_id", limits::kGivenIdBytes));
  TRY(CheckString(fact.scope.agent_id, "agent_id", limits::kGivenIdBytes));
  TRY(CheckString(fact.scope.run_id, "run_id", limits::kGivenIdBytes));
  TRY(CheckString(fact.scope.app_id, "app_id", limits::kGivenIdBytes));
  TRY(CheckMetadata(fact.metadata));
  if (fact.expires_us && *fact.expires_us <= NowMicros())
    return Fail(ErrorCode::kInvalidArgument, "\"expires\" is in the past: give a later instant, or none");
  return {};
}

}  // namespace inferscale
