#include "app/fact_importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace inferscale {

namespace {

// Facts of one transaction: two of the embedder's batches. Its embedding takes a second on a small machine, so that the
// commit's few milliseconds do not count, and little is done twice after a crash.
constexpr size_t kBatchFacts = 64;
constexpr size_t kBatchTurns = 1000;  // nothing is embedded

bool IsCallersFault(ErrorCode code) { return static_cast<int>(code) / 100 == 1; }

bool HasExpired(const FactLine& line, Micros now) { return line.input.expires_us && *line.input.expires_us <= now; }

}  // namespace

// Follows "superseded_by" from one line up to a fact that stays or is gone; all on the way share its fate.
Result<bool> FactImporter::IsOut(const std::vector<FactLine>& lines, size_t start) {
  const Micros now = NowMicros();
  std::vector<size_t> way;
  bool out = false;
  for (size_t at = start;;) {
    if (fates_[at].known) {
      out = fates_[at].out;
      break;
    }
    fates_[at].known = true;  // a circle ends here, and stays
    way.push_back(at);
    out = HasExpired(lines[at], now);
    const std::string& by = lines[at].superseded_by;
    if (out || by.empty()) break;
    if (const auto next = line_of_.find(by); next != line_of_.end()) {
      at = next->second;
      continue;
    }
    const auto ns = memory_.Find(name_space_);
    const auto there = ns ? memory_.catalog().GetFact(ns->id, by).map([](const FactRow&) {}) : ns.map([](auto&) {});
    if (!there && there.error().code != ErrorCode::kNotFound) return tl::unexpected<Error>(there.error());
    out = !there;
    break;
  }
  for (const size_t at : way) fates_[at].out = out;
  return out;
}

Status FactImporter::DecideFates(const std::vector<FactLine>& lines) {
  for (size_t i = 0; i < lines.size(); ++i)
    if (!lines[i].input.id.empty()) line_of_.emplace(lines[i].input.id, i);
  fates_.assign(lines.size(), {});
  const Micros now = NowMicros();
  for (size_t i = 0; i < lines.size(); ++i) {
    TRY_ASSIGN(const bool out, IsOut(lines, i));
    if (out) ++(HasExpired(lines[i], now) ? counts_.expired : counts_.replaced);
  }
  return {};
}

std::vector<std::string> FactImporter::Resolve(const std::vector<std::string>& ids) const {
  std::vector<std::string> resolved;
  for (const std::string& id : ids) {
    const auto line = line_of_.find(id);
    if (line != line_of_.end() && fates_[line->second].out) continue;
    const auto stored = stored_as_.find(id);
    resolved.push_back(stored != stored_as_.end() ? stored->second : id);
  }
  return resolved;
}

Status FactImporter::Send(std::span<FactLine* const> batch) {
  std::vector<FactInput> facts;
  for (const FactLine* line : batch) {
    facts.push_back(line->input);
    facts.back().supersedes = Resolve(line->input.supersedes);
  }
  TRY_ASSIGN(const AddResult result, memory_.Remember(name_space_, facts));
  for (size_t i = 0; i < batch.size(); ++i) {
    const AddedFact& fact = result.facts[i];
    if (fact.outcome == AddOutcome::kIdTaken) {
      counts_.id_taken.push_back(batch[i]->line);
      continue;
    }
    ++(fact.outcome == AddOutcome::kAdded ? counts_.added : counts_.duplicates);
    const std::string& given = batch[i]->input.id;
    if (!given.empty() && given != fact.id) stored_as_[given] = fact.id;
    acknowledged_.push_back(fact.id);
  }
  return {};
}

// What is wrong with one fact is found by sending them one by one: those before it are stored, and the error names it.
Status FactImporter::AddBatch(std::vector<FactLine*> batch) {
  if (batch.empty()) return {};
  const Status sent = Send(batch);
  if (sent) return {};
  const auto lines = [&] { return fmt::format("{}: lines {} to {}", name_, batch.front()->line, batch.back()->line); };
  if (!IsCallersFault(sent.error().code)) return Wrap(sent.error(), lines());
  for (FactLine*& line : batch)
    if (const Status one = Send({&line, 1}); !one)
      return Wrap(one.error(), fmt::format("{}: line {}", name_, line->line));
  return {};
}

// Facts that were replaced by one further up; where it stands below, adding it has done this.
Status FactImporter::Supersede(const std::vector<FactLine>& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].superseded_by.empty() || fates_[i].out || lines[i].input.id.empty()) continue;
    TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
    const std::string id = Resolve({lines[i].input.id}).front();
    const std::vector<std::string> by = Resolve({lines[i].superseded_by});
    TRY_ASSIGN(const FactRow row, memory_.catalog().GetFact(ns.id, id));
    if (!row.superseded_by.empty() || by.empty() || by.front() == id) continue;
    if (const Status done = memory_.Supersede(name_space_, id, by.front()); !done)
      return Wrap(done.error(), fmt::format("{}: line {}", name_, lines[i].line));
  }
  return {};
}

Result<ImportCounts> FactImporter::Facts(std::vector<FactLine> lines) {
  counts_ = {};
  counts_.total = lines.size();
  TRY(DecideFates(lines));
  for (size_t at = 0; at < lines.size(); at += kBatchFacts) {
    const size_t end = std::min(lines.size(), at + kBatchFacts);
    std::vector<FactLine*> batch;
    for (size_t i = at; i < end; ++i)
      if (!fates_[i].out) batch.push_back(&lines[i]);
    acknowledged_.clear();
    TRY(AddBatch(std::move(batch)));
    counts_.done = end;
    on_batch_(counts_, acknowledged_);
  }
  TRY(Supersede(lines));
  return counts_;
}

Result<ImportCounts> FactImporter::Turns(const std::vector<TurnLine>& lines) {
  counts_ = {};
  counts_.total = lines.size();
  for (size_t at = 0; at < lines.size(); at += kBatchTurns) {
    const size_t end = std::min(lines.size(), at + kBatchTurns);
    std::vector<NewTurn> turns;
    for (size_t i = at; i < end; ++i) turns.push_back(lines[i].turn);
    const auto put = memory_.PutTurns(name_space_, turns);
    if (!put) return Wrap(put.error(), fmt::format("{}: lines {} to {}", name_, lines[at].line, lines[end - 1].line));
    counts_.added += put->added;
    counts_.changed += put->changed;
    counts_.duplicates += turns.size() - put->added - put->changed;
    counts_.done = end;
    on_batch_(counts_, {});
  }
  return counts_;
}

}  // namespace inferscale
