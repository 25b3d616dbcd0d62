// JSON to a FilterNode: every mistake is found here, with its path, so that evaluation cannot fail.
#include <array>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "index/filter_node.h"
#include "index/text_fold.h"

namespace inferscale {

namespace {

using nlohmann::json;

constexpr std::array<std::pair<std::string_view, FilterField>, 14> kFields = {{
    {"id", FilterField::kId},
    {"memory", FilterField::kText},
    {"text", FilterField::kText},
    {"user_id", FilterField::kUserId},
    {"agent_id", FilterField::kAgentId},
    {"run_id", FilterField::kRunId},
    {"app_id", FilterField::kAppId},
    {"turn", FilterField::kTurn},
    {"created_at", FilterField::kCreatedAt},
    {"updated_at", FilterField::kUpdatedAt},
    {"expires_at", FilterField::kExpiresAt},
    {"expiration_date", FilterField::kExpiresAt},
    {"date", FilterField::kDate},
    {"event_date", FilterField::kDate},
}};

constexpr std::array<std::pair<std::string_view, FilterOp>, 10> kOps = {{
    {"eq", FilterOp::kEq},
    {"ne", FilterOp::kNe},
    {"gt", FilterOp::kGt},
    {"gte", FilterOp::kGte},
    {"lt", FilterOp::kLt},
    {"lte", FilterOp::kLte},
    {"in", FilterOp::kIn},
    {"nin", FilterOp::kNin},
    {"contains", FilterOp::kContains},
    {"icontains", FilterOp::kIcontains},
}};

constexpr std::string_view kMetadataPrefix = "metadata.";

bool IsOrder(FilterOp op) {
  return op == FilterOp::kGt || op == FilterOp::kGte || op == FilterOp::kLt || op == FilterOp::kLte;
}
bool IsSubstring(FilterOp op) { return op == FilterOp::kContains || op == FilterOp::kIcontains; }
bool IsText(FilterField field) { return field <= FilterField::kTurn; }
bool IsTime(FilterField field) { return field > FilterField::kTurn && field != FilterField::kMetadata; }

// Keys come from outside and go into messages: cut, at a character.
std::string Shown(std::string_view key) {
  constexpr size_t kShownBytes = 64;
  return key.size() <= kShownBytes ? std::string(key)
                                   : std::string(key.substr(0, FloorToCodePoint(key, kShownBytes))) + "…";
}

std::string KindOf(const json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "true or false";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "text";
  return value.is_array() ? "a list" : "an object";
}

class Parser {
 public:
  Result<FilterNode> Object(const json& object, const std::string& path, int depth) {
    if (!object.is_object())
      return Bad(path, "a filter is an object, like {\"user_id\": \"alex\"}, not " + KindOf(object));
    if (depth > limits::kFilterDepth)
      return TooLarge(path, "filters are in each other too deeply", limits::kFilterDepth);
    FilterNode all;
    for (const auto& [key, value] : object.items()) {
      const std::string at = path + "." + Shown(key);
      if (key == "AND" || key == "OR" || key == "NOT") {
        TRY_ASSIGN(FilterNode node, List(key, value, at, depth));
        all.children.push_back(std::move(node));
      } else if (key == "metadata" && value.is_object()) {
        if (value.empty()) return Bad(at, "names no key");
        for (const auto& [name, wanted] : value.items())
          TRY(Field(FilterField::kMetadata, name, wanted, at + "." + Shown(name), all));
      } else {
        TRY(NamedField(key, value, at, all));
      }
    }
    return all;
  }

 private:
  static tl::unexpected<Error> Bad(const std::string& path, const std::string& what) {
    return Fail(ErrorCode::kInvalidArgument, "filter: " + path + ": " + what);
  }
  static tl::unexpected<Error> TooLarge(const std::string& path, const std::string& what, size_t limit) {
    return Fail(ErrorCode::kTooLarge, "filter: " + path + ": " + what + " (limit " + std::to_string(limit) + ")");
  }

  Result<FilterNode> List(const std::string& word, const json& value, const std::string& path, int depth) {
    FilterNode node;
    node.kind = word == "AND"  ? FilterNode::Kind::kAll
                : word == "OR" ? FilterNode::Kind::kAny
                               : FilterNode::Kind::kNone;
    if (value.is_object()) {  // one filter, without the brackets
      TRY_ASSIGN(FilterNode child, Part(value, path, depth + 1));
      node.children.push_back(std::move(child));
      return node;
    }
    if (!value.is_array() || value.empty()) return Bad(path, word + " takes a list of at least one filter");
    for (size_t i = 0; i < value.size(); ++i) {
      TRY_ASSIGN(FilterNode child, Part(value[i], path + "[" + std::to_string(i) + "]", depth + 1));
      node.children.push_back(std::move(child));
    }
    return node;
  }

  // Of AND, OR or NOT: one that says nothing would match everything, and forget it.
  Result<FilterNode> Part(const json& value, const std::string& path, int depth) {
    if (value.is_object() && value.empty()) return Bad(path, "is an empty filter");
    return Object(value, path, depth);
  }

  Status NamedField(const std::string& key, const json& value, const std::string& path, FilterNode& all) {
    for (const auto& [name, field] : kFields)
      if (key == name) return Field(field, "", value, path, all);
    if (key.empty() || key == kMetadataPrefix) return Bad(path, "a field has no name");
    if (key.starts_with("$") || key == "metadata" || key == "and" || key == "or" || key == "not")
      return Bad(path, key == "metadata" ? "metadata is compared by its keys, like metadata.topic"
                                         : "there is no such field; filters are joined by AND, OR and NOT");
    const std::string_view metadata_key =
        key.starts_with(kMetadataPrefix) ? std::string_view(key).substr(kMetadataPrefix.size()) : key;
    return Field(FilterField::kMetadata, metadata_key, value, path, all);
  }

  // Adds the conditions on one field: {"gte": 1, "lt": 5}, "*", or a value that it equals.
  Status Field(FilterField field, std::string_view key, const json& value, const std::string& path, FilterNode& all) {
    if (!value.is_object()) {
      if (value.is_array()) return Bad(path, "is a list: write {\"in\": […]} for one of several values");
      const bool exists = value.is_string() && value.get_ref<const std::string&>() == "*";
      return Condition(field, key, exists ? FilterOp::kExists : FilterOp::kEq, value, path, all);
    }
    if (value.empty()) return Bad(path, "has no operator, like {\"eq\": \"value\"}");
    for (const auto& [name, operand] : value.items()) {
      const std::string at = path + "." + Shown(name);
      bool is_known = false;
      for (const auto& [op_name, op] : kOps) {
        if (name != op_name) continue;
        is_known = true;
        TRY(Condition(field, key, op, operand, at, all));
      }
      if (!is_known)
        return Bad(at, "unknown operator: there are eq, ne, gt, gte, lt, lte, in, nin, contains and icontains");
    }
    return {};
  }

  Status Condition(FilterField field, std::string_view key, FilterOp op, const json& operand, const std::string& path,
                   FilterNode& all) {
    TRY(Count(path));
    FilterNode node;
    node.kind = FilterNode::Kind::kCondition;
    FilterCondition& condition = node.condition;
    condition.field = field;
    condition.key = key;
    condition.op = op;
    if (IsOrder(op) && IsText(field))
      return Bad(path, "this field is text, which has no order: use eq, in or contains");
    if (IsSubstring(op) && IsTime(field)) return Bad(path, "this field is a time: use eq, gt, gte, lt, lte or in");
    if (op == FilterOp::kIn || op == FilterOp::kNin) {
      if (!operand.is_array()) return Bad(path, "takes a list, not " + KindOf(operand));
      values_ += operand.size();
      if (values_ > limits::kFilterValues) return TooLarge(path, "too many values", limits::kFilterValues);
      for (size_t i = 0; i < operand.size(); ++i) {
        TRY_ASSIGN(FilterValue value, Value(condition, operand[i], path + "[" + std::to_string(i) + "]"));
        condition.values.push_back(std::move(value));
      }
    } else if (op != FilterOp::kExists) {
      TRY_ASSIGN(FilterValue value, Value(condition, operand, path));
      condition.values.push_back(std::move(value));
    }
    all.children.push_back(std::move(node));
    return {};
  }

  static Result<FilterValue> Value(const FilterCondition& condition, const json& operand, const std::string& path) {
    FilterValue value;
    value.json = operand;
    if (condition.op == FilterOp::kIcontains && !operand.is_string())
      return Bad(path, "takes text, not " + KindOf(operand));
    if (condition.op == FilterOp::kIcontains) value.folded = FoldText(operand.get_ref<const std::string&>());
    if (operand.is_null() && !IsOrder(condition.op) && !IsSubstring(condition.op)) return value;  // "has none"
    if (IsText(condition.field)) return TextValue(std::move(value), path);
    if (IsTime(condition.field)) {
      TRY_ASSIGN(value, TimeValue(std::move(value), path));
      // An event's date is a day, so it is compared with the day that a time is on.
      if (condition.field == FilterField::kDate) value.time = DayRange(DayOf(value.time->begin_us));
      return value;
    }
    if (IsOrder(condition.op)) {
      if (!operand.is_number() && !operand.is_string())
        return Bad(path, "takes a number or text, not " + KindOf(operand));
      if (operand.is_string())
        if (const auto time = ParseTime(operand.get_ref<const std::string&>())) value.time = *time;
    }
    if (IsSubstring(condition.op) && operand.is_structured())
      return Bad(path, "takes one value, not " + KindOf(operand));
    return value;
  }

  // Ids are text; clients that use numbers for them mean their digits.
  static Result<FilterValue> TextValue(FilterValue value, const std::string& path) {
    if (value.json.is_number_integer()) value.json = value.json.dump();
    if (!value.json.is_string()) return Bad(path, "takes text, not " + KindOf(value.json));
    return value;
  }

  static Result<FilterValue> TimeValue(FilterValue value, const std::string& path) {
    if (value.json.is_string()) {
      auto time = ParseTime(value.json.get_ref<const std::string&>());
      if (!time) return Wrap(std::move(time).error(), "filter: " + path);
      value.time = *time;
      return value;
    }
    if (!value.json.is_number()) return Bad(path, "takes a time, like 2024-03-01 or 2024-03-01T09:30:00Z");
    constexpr double kMicros = 1e6;
    const double micros = value.json.get<double>() * kMicros;
    if (!(micros >= static_cast<double>(kFirstInstant) && micros < static_cast<double>(kLastInstant)))
      return Bad(path, "is no number of seconds since 1970 in the years 1 to 9999");
    const auto instant = static_cast<int64_t>(micros);
    value.time = TimeRange{instant, instant + 1};
    return value;
  }

  Status Count(const std::string& path) {
    if (++conditions_ > limits::kFilterConditions)
      return TooLarge(path, "too many conditions", limits::kFilterConditions);
    return {};
  }

  size_t conditions_ = 0, values_ = 0;
};

// Values may be nested too, and comparing them recurses.
Status CheckNesting(const json& value, int left) {
  if (!value.is_structured()) return {};
  if (left == 0)
    return Fail(ErrorCode::kTooLarge, "filter: $: lists and objects are in each other too deeply (limit " +
                                          std::to_string(limits::kFilterNesting) + ")");
  for (const json& child : value) TRY(CheckNesting(child, left - 1));
  return {};
}

}  // namespace

Result<FilterNode> ParseFilter(const json& json) {
  TRY(CheckNesting(json, limits::kFilterNesting));
  return Parser().Object(json, "$", 0);
}

}  // namespace inferscale
