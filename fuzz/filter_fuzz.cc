// Filters of any bytes: refused with a path, or applied to any metadata without a crash, and two ways of asking the
// same agree. The text before the first NUL is the filter, the rest a fact's metadata.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "index/filter.h"

namespace {

using inferscale::Filter;
using inferscale::FilterFact;

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view text = input.substr(0, input.find('\0'));
  const auto filter = Filter::Parse(text);
  if (!filter) {
    Check(filter.error().message.starts_with("filter: $"));
    return 0;
  }
  FilterFact fact;
  fact.id = "f1";
  fact.text = "Anna moved";
  fact.user_id = "anna";
  fact.created_us = 1'709'251'200'000'000;
  fact.date = inferscale::Date{2024, 3, 1};
  fact.metadata = input.substr(std::min(text.size() + 1, size));
  const bool matches = filter->Matches(fact);
  Check(matches == filter->Matches(fact));
  if (filter->empty()) {
    Check(matches);
    return 0;
  }
  // The opposite, unless the limits are reached by one level more.
  const auto opposite = Filter::Parse("{\"NOT\":[" + std::string(text) + "]}");
  if (opposite) Check(opposite->Matches(fact) != matches);
  return 0;
}
