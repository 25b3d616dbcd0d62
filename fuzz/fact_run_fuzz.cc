// A run book of any JSON is refused or understood; one that is understood, however wrong, is sound after Update. The
// first byte says which facts are live.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/fact_run.h"

namespace {

using inferscale::FactRun;
using inferscale::RunBook;
using inferscale::RunFact;

constexpr int kRunFacts = 3, kRunTokens = 100;

void Check(bool condition) {
  if (!condition) std::abort();
}

// Facts as fuzz/corpus/fact_run_fuzz has them: digests of ones, 20 tokens.
std::vector<RunFact> LiveFacts(uint8_t seed) {
  std::vector<RunFact> live;
  for (int i = 0; i < 8; ++i)
    if ((seed >> i & 1) == 0)
      live.push_back({"f" + std::to_string(i), 1, {0x1111111111111111, 0x1111111111111111}, 20});
  if (seed & 0x80) std::swap(live.front(), live.back());
  return live;
}

void CheckSound(const RunBook& book, const std::vector<RunFact>& live) {
  std::map<std::string, size_t> order;
  for (size_t i = 0; i < live.size(); ++i) order[live[i].id] = i;
  std::set<std::string> members;
  for (const FactRun& run : book.runs()) {
    Check(!run.members.empty() && run.members.size() <= kRunFacts && run.anchor.size() <= kRunFacts);
    Check(2 * run.anchor.size() >= run.anchor_chosen && run.anchor.size() <= run.anchor_chosen);
    std::vector<RunFact> pass = run.anchor;
    pass.insert(pass.end(), run.members.begin(), run.members.end());
    for (size_t i = 0; i < pass.size(); ++i) {
      Check(order.contains(pass[i].id) && live[order[pass[i].id]] == pass[i]);
      Check(i == 0 || order[pass[i - 1].id] < order[pass[i].id]);
    }
    for (const RunFact& fact : run.members) Check(members.insert(fact.id).second);
  }
  Check(members.size() == live.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  auto book = RunBook::FromJson(text, kRunFacts, kRunTokens);
  if (!book) {
    Check(!book.error().message.empty());
    return 0;
  }
  const auto as_read = RunBook::FromJson(book->ToJson(), kRunFacts, kRunTokens);
  Check(as_read.has_value() && as_read->runs() == book->runs());
  for (const uint8_t seed : {data[0], static_cast<uint8_t>(data[0] * 37)}) {
    const std::vector<RunFact> live = LiveFacts(seed);
    book->Update(live);
    CheckSound(*book, live);
    const auto again = RunBook::FromJson(book->ToJson(), kRunFacts, kRunTokens);
    Check(again.has_value() && again->runs() == book->runs());
  }
  return 0;
}
