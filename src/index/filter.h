// The filter language of searches (docs/filters.md): JSON, parsed once, applied to many facts.
//
//   {"user_id": "alex", "metadata.topic": {"in": ["food", "travel"]}, "created_at": {"gte": "2024-03-01"}}
//   {"AND": [{"category": "*"}, {"NOT": [{"score": {"lt": 3}}]}]}
//
// Fields: id, memory (or text), user_id, agent_id, run_id, app_id, turn; created_at, updated_at, expires_at (or
// expiration_date): instants; date (or event_date): the day of the event; metadata.KEY, and any other KEY is
// metadata.KEY too. Conditions on one level must all hold.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "core/date.h"

namespace inferscale {

// What a filter may ask of a fact. Views: they must live through Matches only.
struct FilterFact {
  std::string_view id, text, user_id, agent_id, run_id, app_id, turn;  // empty: it has none
  Micros created_us = 0;
  Micros updated_us = 0;
  std::optional<Micros> expires_us;
  std::optional<Date> date;
  std::string_view metadata;  // a JSON object as text, or empty; what is not JSON has no keys

  static FilterFact Of(const FactRow& row);
};

struct FilterNode;

class Filter {
 public:
  Filter();  // every fact matches
  ~Filter();
  Filter(Filter&&) noexcept;
  Filter& operator=(Filter&&) noexcept;

  // json: an object, or empty for the filter that everything matches. Every error names the path of what is wrong:
  // "$.AND[1].created_at.gte: …". kInvalidJson; kInvalidArgument: an unknown operator, a value of a wrong type;
  // kInvalidDate; kTooLarge: beyond limits::kFilterBytes, kFilterDepth, kFilterConditions, kFilterValues.
  static Result<Filter> Parse(std::string_view json);
  static Result<Filter> FromJson(const nlohmann::json& json);  // the same; no limit on bytes

  // Thread-safe. A fact whose metadata is needed is parsed once per call.
  bool Matches(const FilterFact& fact) const;
  bool empty() const;  // matches everything

 private:
  std::unique_ptr<const FilterNode> root_;  // null: everything
};

}  // namespace inferscale
