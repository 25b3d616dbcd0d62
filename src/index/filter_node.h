// A parsed filter. Only filter*.cc see it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/instant.h"

namespace inferscale {

enum class FilterField : uint8_t {
  kId,
  kText,
  kUserId,
  kAgentId,
  kRunId,
  kAppId,
  kTurn,  // up to here: text
  kCreatedAt,
  kUpdatedAt,
  kExpiresAt,  // instants
  kDate,       // a day
  kMetadata,   // any JSON
};

enum class FilterOp : uint8_t {
  kEq,
  kNe,
  kGt,
  kGte,
  kLt,
  kLte,
  kIn,
  kNin,
  kContains,
  kIcontains,
  kExists,  // "*"
};

// A value that a field is compared with; which members are set depends on the field.
struct FilterValue {
  nlohmann::json json;
  std::string folded;             // of a text, for icontains
  std::optional<TimeRange> time;  // instants and days; of metadata: if the text is one, for gt, gte, lt, lte
};

struct FilterCondition {
  FilterField field = FilterField::kMetadata;
  std::string key;  // of the metadata
  FilterOp op = FilterOp::kEq;
  std::vector<FilterValue> values;  // one; any number for kIn and kNin; none for kExists
};

struct FilterNode {
  enum class Kind : uint8_t { kAll, kAny, kNone, kCondition };  // of the children: all, one at least, not one

  Kind kind = Kind::kAll;
  std::vector<FilterNode> children;
  FilterCondition condition;  // kCondition
};

// Filter::FromJson without the wrapping.
Result<FilterNode> ParseFilter(const nlohmann::json& json);

}  // namespace inferscale
