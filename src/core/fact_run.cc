#include "core/fact_run.h"

#include <algorithm>

#include "base/assert.h"

namespace inferscale {

namespace {

constexpr size_t kStruck = SIZE_MAX;

// Which of `places` to keep so that they strictly increase: as many as possible. Those that are kStruck go anyway.
// The longest increasing subsequence by patience sorting, O(n log n).
std::vector<bool> LongestIncreasing(const std::vector<size_t>& places) {
  std::vector<size_t> piles;  // index of the smallest end of an increasing run of length i + 1
  std::vector<size_t> before(places.size(), kStruck);
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] == kStruck) continue;
    const auto pile = std::lower_bound(piles.begin(), piles.end(), places[i],
                                       [&](size_t index, size_t place) { return places[index] < place; });
    if (pile != piles.begin()) before[i] = *(pile - 1);
    if (pile == piles.end())
      piles.push_back(i);
    else
      *pile = i;
  }
  std::vector<bool> keep(places.size(), false);
  for (size_t i = piles.empty() ? kStruck : piles.back(); i != kStruck; i = before[i]) keep[i] = true;
  return keep;
}

// Keeps those of `facts` that are live, unchanged, before `limit` and in order.
template <class PlaceOf>
void Retain(std::vector<RunFact>& facts, size_t limit, PlaceOf place_of) {
  std::vector<size_t> places;
  for (const RunFact& fact : facts) {
    const size_t place = place_of(fact);
    places.push_back(place < limit ? place : kStruck);
  }
  const std::vector<bool> keep = LongestIncreasing(places);
  size_t kept = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) facts[kept] = std::move(facts[i]);
    ++kept;
  }
  facts.resize(kept);
}

size_t SumTokens(const std::vector<RunFact>& facts) {
  size_t sum = 0;
  for (const RunFact& fact : facts) sum += fact.tokens;
  return sum;
}

}  // namespace

void WindowOf(const FactRun& run, size_t member, std::vector<const RunFact*>& seen) {
  INFERSCALE_ASSERT(member < run.members.size());
  seen.clear();
  for (const RunFact& fact : run.anchor) seen.push_back(&fact);
  for (size_t i = 0; i < member; ++i) seen.push_back(&run.members[i]);
}

RunBook::RunBook(int run_facts, int run_tokens) : run_facts_(run_facts), run_tokens_(run_tokens) {
  INFERSCALE_ASSERT(run_facts >= 1 && run_tokens >= 1);
}

RunBook::RunBook(int run_facts, int run_tokens, std::vector<FactRun> runs) : RunBook(run_facts, run_tokens) {
  runs_ = std::move(runs);
  std::erase_if(runs_, [](const FactRun& run) { return run.members.empty(); });
}

void RunBook::Update(std::span<const RunFact> live) {
  Order order;
  order.reserve(live.size());
  for (size_t i = 0; i < live.size(); ++i) INFERSCALE_ASSERT(order.emplace(live[i].id, i).second);
  Strike(live, order);

  std::vector<bool> placed(live.size(), false);
  for (FactRun& run : runs_) {
    const size_t first = order.at(run.members.front().id);
    if (2 * run.anchor.size() < run.anchor_chosen) ChooseAnchor(run, live, first);
    for (const RunFact& fact : run.members) placed[order.at(fact.id)] = true;
  }
  FactRun* run = LastMainRun();
  const size_t follows = run == nullptr ? 0 : order.at(run->members.back().id);
  for (size_t i = follows; i < live.size(); ++i)
    if (!placed[i]) Place(live, i, false, run);
  run = nullptr;  // earlier side runs are closed
  for (size_t i = 0; i < follows; ++i)
    if (!placed[i]) Place(live, i, true, run);
  for (FactRun& each : runs_) each.closed = each.closed || each.side;
}

void RunBook::Strike(std::span<const RunFact> live, const Order& order) {
  std::vector<bool> taken(live.size(), false);  // a fact is a member once, whatever a damaged book says
  const auto place_of = [&](const RunFact& fact) {
    const auto found = order.find(fact.id);
    return found != order.end() && live[found->second] == fact ? found->second : kStruck;
  };
  for (FactRun& run : runs_) {
    Retain(run.members, live.size(), [&](const RunFact& fact) {
      const size_t place = place_of(fact);
      return place != kStruck && !taken[place] ? place : kStruck;
    });
    for (const RunFact& fact : run.members) taken[place_of(fact)] = true;
    if (!run.members.empty()) Retain(run.anchor, place_of(run.members.front()), place_of);
  }
  std::erase_if(runs_, [](const FactRun& run) { return run.members.empty(); });
}

void RunBook::ChooseAnchor(FactRun& run, std::span<const RunFact> live, size_t first) const {
  size_t begin = first, tokens = 0;
  while (begin > 0 && first - begin < static_cast<size_t>(run_facts_) &&
         tokens + live[begin - 1].tokens <= static_cast<size_t>(run_tokens_))
    tokens += live[--begin].tokens;
  run.anchor.assign(live.begin() + static_cast<std::ptrdiff_t>(begin),
                    live.begin() + static_cast<std::ptrdiff_t>(first));
  run.anchor_chosen = static_cast<uint32_t>(run.anchor.size());
}

bool RunBook::Take(FactRun& run, const RunFact& fact) const {
  if (run.closed) return false;
  if (!run.members.empty() && SumTokens(run.members) + fact.tokens > static_cast<size_t>(run_tokens_)) {
    run.closed = true;
    return false;
  }
  run.members.push_back(fact);
  run.closed = run.members.size() == static_cast<size_t>(run_facts_);
  return true;
}

void RunBook::Place(std::span<const RunFact> live, size_t place, bool side, FactRun*& run) {
  if (run != nullptr && Take(*run, live[place])) return;
  run = &runs_.emplace_back();
  run->side = side;
  ChooseAnchor(*run, live, place);
  INFERSCALE_ASSERT(Take(*run, live[place]));
}

FactRun* RunBook::LastMainRun() {
  for (size_t i = runs_.size(); i > 0; --i)
    if (!runs_[i - 1].side) return &runs_[i - 1];
  return nullptr;
}

}  // namespace inferscale
