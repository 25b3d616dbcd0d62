// A plan of any JSON is refused or understood; what is understood keeps the invariants and is written back as the same
// plan.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/prompt_plan.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = inferscale::PlanFromJson(text);
  if (!plan) {
    Check(!plan.error().message.empty());
    return 0;
  }
  Check(inferscale::CheckPlan(*plan).has_value());
  Check(plan->InjectedTokens() < plan->prompt_tokens.size());
  Check(plan->InjectedTokens() + plan->ComputedTokens() == plan->prompt_tokens.size());
  Check(plan->PrefixTokens() <= plan->InjectedTokens());
  const auto again = inferscale::PlanFromJson(inferscale::PlanToJson(*plan));
  Check(again.has_value() && *again == *plan);
  return 0;
}
