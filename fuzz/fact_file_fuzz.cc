// Fact and turn files of any bytes: every fact that comes out keeps the limits, and splitting it loses nothing but
// white space.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/utf8.h"
#include "memory/fact_file.h"

namespace {

using inferscale::Fact;
namespace limits = inferscale::limits;

void Check(bool condition) {
  if (!condition) std::abort();
}

std::string WithoutSpaces(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && (c < '\t' || c > '\r')) out += c;
  return out;
}

// A token for every two bytes: not additive.
size_t CountTokens(std::string_view text) { return (text.size() + 1) / 2; }

void CheckSplit(const std::vector<Fact>& facts) {
  constexpr size_t kLimit = 8;
  const auto split = inferscale::SplitLongFacts(facts, CountTokens, kLimit);
  if (!split) return;  // an id like that of a part
  std::string before, after;
  for (const Fact& fact : facts) before += WithoutSpaces(fact.text);
  for (const Fact& fact : *split) {
    Check(CountTokens(fact.text) <= kLimit && inferscale::IsValidUtf8(fact.text));
    Check(fact.id.size() <= limits::kIdBytes);
    after += WithoutSpaces(fact.text);
  }
  Check(before == after);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  if (const auto turns = inferscale::ParseTurnFile(content, "t"); turns)
    for (const auto& turn : *turns) Check(!turn.id.empty() && !turn.text.empty() && turn.PromptText().ends_with("\n"));
  const auto file = inferscale::ParseFactFile(content, "f");
  if (!file) {
    Check(file.error().message.starts_with("f"));
    return 0;
  }
  Check(!file->facts.empty());
  std::set<std::string> ids;
  for (const Fact& fact : file->facts) {
    Check(!fact.id.empty() && fact.id.size() <= limits::kGivenIdBytes && ids.insert(fact.id).second);
    Check(!fact.text.empty() && fact.text.size() <= limits::kFactBytes && inferscale::IsValidUtf8(fact.text));
    Check(fact.text.find('\0') == std::string::npos);
    const std::string line = fact.PromptText();
    Check(line.find('\n') == line.size() - 1);
  }
  CheckSplit(file->facts);
  return 0;
}
