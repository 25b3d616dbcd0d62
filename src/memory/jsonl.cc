#include "memory/jsonl.h"

#include "base/limits.h"
#include "base/utf8.h"
#include "core/strict_json.h"

namespace inferscale {

namespace {

using nlohmann::json;

Status CheckBytes(std::string_view line) {
  if (line.size() > limits::kJsonLineBytes)
    return Fail(ErrorCode::kTooLarge,
                "it is longer than " + std::to_string(limits::kJsonLineBytes) + " bytes: split it into several facts");
  if (const size_t at = FirstInvalidUtf8(line); at != std::string_view::npos)
    return Fail(ErrorCode::kInvalidUtf8,
                "byte " + std::to_string(at + 1) + " of the line is not valid UTF-8: save the file as UTF-8");
  if (const size_t at = line.find('\0'); at != std::string_view::npos)
    return Fail(ErrorCode::kInvalidJson,
                "byte " + std::to_string(at + 1) + " of the line is NUL: this is not a text file");
  return {};
}

Result<json> ParseObject(std::string_view line) {
  TRY(CheckBytes(line));
  Result<json> object = ParseStrictJson(line);
  if (!object) {
    object.error().message += ": write one JSON object on each line";
    if (line.find('\r') < line.size() - 1) object.error().message += "; lines end with \\n, not with \\r";
    return object;
  }
  if (object->is_object()) return object;
  return Fail(ErrorCode::kInvalidJson, R"(not a JSON object: write one like {"text": "…"} on each line)");
}

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

Result<size_t> ForEachJsonLine(std::string_view content, std::string_view name, const OnJsonObject& on_object) {
  if (content.starts_with("\xFF\xFE") || content.starts_with("\xFE\xFF"))
    return Fail(ErrorCode::kInvalidUtf8, std::string(name) + ": it is UTF-16: save the file as UTF-8");
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  size_t objects = 0;
  for (size_t number = 1; !content.empty(); ++number) {
    const size_t end = content.find('\n');
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    if (IsBlank(line)) continue;
    Result<json> object = ParseObject(line);
    Status handled;
    if (object)
      handled = on_object(number, *object);
    else
      handled = tl::unexpected<Error>(std::move(object).error());
    if (!handled) return Wrap(std::move(handled).error(), std::string(name) + ": line " + std::to_string(number));
    ++objects;
  }
  return objects;
}

Result<std::optional<std::string>> OptionalString(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::optional<std::string>();
  if (!found->is_string())
    return Fail(ErrorCode::kInvalidArgument,
                "\"" + std::string(key) + "\" is " + found->type_name() + ", not a string: put it in double quotes");
  std::string value = found->get<std::string>();
  if (value.find('\0') != std::string::npos)
    return Fail(ErrorCode::kInvalidArgument, "\"" + std::string(key) + "\" has a NUL character (\\u0000): remove it");
  return std::optional(std::move(value));
}

Result<std::string> RequiredString(const json& object, const char* key) {
  TRY_ASSIGN(std::optional<std::string> value, OptionalString(object, key));
  if (value) return std::move(*value);
  return Fail(ErrorCode::kInvalidArgument, "\"" + std::string(key) + "\" is missing: every line needs one");
}

Result<std::optional<Date>> OptionalDate(const json& object) {
  TRY_ASSIGN(const std::optional<std::string> text, OptionalString(object, "date"));
  if (!text) return std::optional<Date>();
  Result<Date> date = ParseDate(*text);
  if (!date) return Wrap(std::move(date).error(), "\"date\"");
  return std::optional(*date);
}

}  // namespace inferscale
