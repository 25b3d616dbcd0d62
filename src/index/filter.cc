#include "index/filter.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "core/strict_json.h"
#include "index/filter_node.h"
#include "index/text_fold.h"

namespace inferscale {

namespace {

using nlohmann::json;

// Value against value of two times: the fact's begins inside, before or behind what the filter names.
bool CompareTimes(int64_t begin_us, FilterOp op, const TimeRange& wanted) {
  switch (op) {
    case FilterOp::kGt:
      return begin_us >= wanted.end_us;
    case FilterOp::kGte:
      return begin_us >= wanted.begin_us;
    case FilterOp::kLt:
      return begin_us < wanted.begin_us;
    case FilterOp::kLte:
      return begin_us < wanted.end_us;
    default:
      return begin_us >= wanted.begin_us && begin_us < wanted.end_us;
  }
}

bool Compare(const auto& a, FilterOp op, const auto& b) {
  switch (op) {
    case FilterOp::kGt:
      return a > b;
    case FilterOp::kGte:
      return a >= b;
    case FilterOp::kLt:
      return a < b;
    default:
      return a <= b;
  }
}

// One fact; its metadata is parsed when it is first asked for.
class Evaluation {
 public:
  explicit Evaluation(const FilterFact& fact) : fact_(fact) {}

  bool Matches(const FilterNode& node) {
    const auto matches = [this](const FilterNode& child) { return Matches(child); };
    switch (node.kind) {
      case FilterNode::Kind::kAll:
        return std::all_of(node.children.begin(), node.children.end(), matches);
      case FilterNode::Kind::kAny:
        return std::any_of(node.children.begin(), node.children.end(), matches);
      case FilterNode::Kind::kNone:
        return std::none_of(node.children.begin(), node.children.end(), matches);
      case FilterNode::Kind::kCondition:
        break;
    }
    return MatchesCondition(node.condition);
  }

 private:
  bool MatchesCondition(const FilterCondition& condition) {
    const auto equals = [&](const FilterValue& value) { return Holds(condition, FilterOp::kEq, value); };
    const auto is_in = [&](const FilterValue& value) { return Holds(condition, FilterOp::kIn, value); };
    switch (condition.op) {
      case FilterOp::kExists:
        return !IsMissing(condition);
      case FilterOp::kNe:
        return !equals(condition.values[0]);
      case FilterOp::kIn:
        return std::any_of(condition.values.begin(), condition.values.end(), is_in);
      case FilterOp::kNin:
        return std::none_of(condition.values.begin(), condition.values.end(), is_in);
      default:
        return Holds(condition, condition.op, condition.values[0]);
    }
  }

  bool IsMissing(const FilterCondition& condition) {
    if (condition.field == FilterField::kMetadata) {
      const json* value = Metadata(condition.key);
      return value == nullptr || value->is_null();
    }
    return condition.field <= FilterField::kTurn ? Text(condition.field).empty() : !Time(condition.field).has_value();
  }

  // op: no negated one. A field that the fact has not got equals null, and nothing else holds for it.
  bool Holds(const FilterCondition& condition, FilterOp op, const FilterValue& value) {
    if (IsMissing(condition)) return value.json.is_null();
    if (value.json.is_null()) return false;
    if (condition.field == FilterField::kMetadata) return MetadataHolds(*Metadata(condition.key), op, value);
    if (condition.field > FilterField::kTurn) return CompareTimes(*Time(condition.field), op, *value.time);
    const std::string_view text = Text(condition.field);
    if (op == FilterOp::kIcontains) return FoldText(text).find(value.folded) != std::string::npos;
    const auto& wanted = value.json.get_ref<const std::string&>();
    return op == FilterOp::kContains ? text.find(wanted) != std::string_view::npos : text == wanted;
  }

  static bool MetadataHolds(const json& has, FilterOp op, const FilterValue& value) {
    switch (op) {
      case FilterOp::kEq:
        return has == value.json;
      case FilterOp::kIn:
        return has == value.json || IsElement(has, value.json);
      case FilterOp::kContains:
        if (has.is_string() && value.json.is_string())
          return has.get_ref<const std::string&>().find(value.json.get_ref<const std::string&>()) != std::string::npos;
        return IsElement(has, value.json);
      case FilterOp::kIcontains:
        if (has.is_string()) return FoldText(has.get_ref<const std::string&>()).find(value.folded) != std::string::npos;
        return has.is_array() && std::any_of(has.begin(), has.end(), [&](const json& element) {
                 return element.is_string() && FoldText(element.get_ref<const std::string&>()) == value.folded;
               });
      default:
        return MetadataIsOrdered(has, op, value);
    }
  }

  static bool MetadataIsOrdered(const json& has, FilterOp op, const FilterValue& value) {
    if (has.is_number() && value.json.is_number()) return Compare(has, op, value.json);
    if (!has.is_string() || !value.json.is_string()) return false;
    const auto& text = has.get_ref<const std::string&>();
    if (!value.time) return Compare(text, op, value.json.get_ref<const std::string&>());
    const auto time = ParseTime(text);
    return time && CompareTimes(time->begin_us, op, *value.time);
  }

  static bool IsElement(const json& list, const json& value) {
    return list.is_array() && std::find(list.begin(), list.end(), value) != list.end();
  }

  std::string_view Text(FilterField field) const {
    switch (field) {
      case FilterField::kId:
        return fact_.id;
      case FilterField::kText:
        return fact_.text;
      case FilterField::kUserId:
        return fact_.user_id;
      case FilterField::kAgentId:
        return fact_.agent_id;
      case FilterField::kRunId:
        return fact_.run_id;
      case FilterField::kAppId:
        return fact_.app_id;
      default:
        return fact_.turn;
    }
  }

  std::optional<int64_t> Time(FilterField field) const {
    switch (field) {
      case FilterField::kCreatedAt:
        return fact_.created_us;
      case FilterField::kUpdatedAt:
        return fact_.updated_us;
      case FilterField::kExpiresAt:
        return fact_.expires_us;
      default:
        return fact_.date ? std::optional(DayRange(*fact_.date).begin_us) : std::nullopt;
    }
  }

  // The value of this key, or with dots in it of the key inside that object; null: there is none.
  const json* Metadata(const std::string& key) {
    if (!metadata_) metadata_ = json::parse(fact_.metadata, nullptr, false);
    const json* object = &*metadata_;
    for (std::string_view rest = key; object->is_object();) {
      if (const auto found = object->find(rest); found != object->end()) return &*found;
      const size_t dot = rest.find('.');
      if (dot == std::string_view::npos) return nullptr;
      const auto inner = object->find(rest.substr(0, dot));
      if (inner == object->end()) return nullptr;
      object = &*inner;
      rest.remove_prefix(dot + 1);
    }
    return nullptr;
  }

  const FilterFact& fact_;
  std::optional<json> metadata_;
};

}  // namespace

FilterFact FilterFact::Of(const FactRow& row) {
  FilterFact fact;
  fact.id = row.id;
  fact.text = row.text;
  fact.user_id = row.scope.user_id;
  fact.agent_id = row.scope.agent_id;
  fact.run_id = row.scope.run_id;
  fact.app_id = row.scope.app_id;
  fact.turn = row.turn;
  fact.created_us = row.created_us;
  fact.updated_us = row.updated_us;
  fact.expires_us = row.expires_us;
  fact.date = row.date;
  fact.metadata = row.metadata;
  return fact;
}

Filter::Filter() = default;
Filter::~Filter() = default;
Filter::Filter(Filter&&) noexcept = default;
Filter& Filter::operator=(Filter&&) noexcept = default;

Result<Filter> Filter::Parse(std::string_view text) {
  if (text.empty()) return Filter();
  if (text.size() > limits::kFilterBytes)
    return Fail(ErrorCode::kTooLarge,
                "filter: $: longer than the limit of " + std::to_string(limits::kFilterBytes) + " bytes");
  Result<json> parsed = ParseStrictJson(text);
  if (!parsed) {
    parsed.error().message += "; write a filter like {\"user_id\": \"alex\"}";
    return Wrap(std::move(parsed).error(), "filter: $");
  }
  return FromJson(*parsed);
}

Result<Filter> Filter::FromJson(const json& json) {
  TRY_ASSIGN(FilterNode root, ParseFilter(json));
  Filter filter;
  if (!root.children.empty()) filter.root_ = std::make_unique<const FilterNode>(std::move(root));
  return filter;
}

bool Filter::Matches(const FilterFact& fact) const { return root_ == nullptr || Evaluation(fact).Matches(*root_); }
bool Filter::empty() const { return root_ == nullptr; }

}  // namespace inferscale
