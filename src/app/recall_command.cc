#include "app/recall_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/fact_lines.h"
#include "app/memory_flags.h"
#include "app/number_flag.h"
#include "app/terminal_text.h"
#include "base/limits.h"

namespace inferscale {

namespace {

struct RecallFlags {
  MemoryFlags memory;
  std::string query;
  RecallOptions options{.parts_as_parents = true};
};

nlohmann::ordered_json HitToJson(size_t rank, const RecallHit& hit) {
  nlohmann::ordered_json json{{"rank", rank}, {"score", hit.score}, {"cosine", hit.cosine}, {"keyword", hit.keyword}};
  json.update(FactToJson(hit.fact));
  json["version"] = hit.fact.version;
  return json;
}

Result<int> RunRecall(const RecallFlags& flags) {
  TRY(CheckQuery(flags.query));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "recall", MemoryUse::kSearch));
  TRY_ASSIGN(const auto known, FindNameSpace(*opened.memory, flags.memory));
  TRY_ASSIGN(const std::vector<RecallHit> hits,
             opened.memory->Recall(flags.memory.name_space, flags.query, flags.options));
  if (flags.memory.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const RecallHit& hit : hits) json.push_back(HitToJson(json.size() + 1, hit));
    PrintJson(json);
    return 0;
  }
  if (hits.empty() && known && !flags.memory.quiet) PrintNote("nothing was found");
  if (hits.empty()) return 0;
  size_t width = 2;
  for (const RecallHit& hit : hits) width = std::max(width, hit.fact.id.size());
  PrintOut(fmt::format("rank  score  cosine  keyword  date        {:<{}}  text\n", "id", width));
  for (size_t i = 0; i < hits.size(); ++i) {
    const RecallHit& hit = hits[i];
    PrintOut(fmt::format("{:>4}  {:.3f}  {:>6.3f}  {:>7.2f}  {:<10}  {:<{}}  {}{}\n", i + 1, hit.score, hit.cosine,
                         hit.keyword, hit.fact.date ? hit.fact.date->Iso() : "-", ForTerminal(hit.fact.id), width,
                         ForTerminal(hit.fact.text), hit.fact.superseded_by.empty() ? "" : "  [superseded]"));
  }
  return 0;
}

// CLI::Range lets NaN pass.
std::string CheckScore(const std::string& text) {
  float score = -1;
  const bool is_number = CLI::detail::lexical_cast(text, score);
  return is_number && score >= 0 && score <= 1 ? "" : text + " is no number from 0 to 1";
}

constexpr const char* kFooter = R"(Examples:
  inferscale recall "Where does Nora live?"
  inferscale recall "cat" --top-k 3 --json
  inferscale recall "cat" --filter '{"topic": {"in": ["pets", "home"]}, "date": {"gte": "2023-01-01"}}'

score (0 to 1) is the cosine (meaning) and up to half a point for words in common, more the nearer keyword (BM25, 0 and
up; near 0 for words that most facts have) is to what the query's words could reach. Filters apply before the best are
chosen; docs/filters.md has their grammar. Expired and superseded facts are not found.)";

}  // namespace

void AddRecallCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<RecallFlags>();
  CLI::App* recall = app.add_subcommand("recall", "Find the facts that suit a query best");
  recall->add_option("QUERY", flags->query, "What to look for")->required()->type_name("");
  AddNumber(*recall, "--top-k", flags->options.top_k, size_t{1}, size_t{limits::kTopKMax}, "Facts at most")
      ->capture_default_str();
  recall->add_option("--filter", flags->options.filter, "Only facts that match")->type_name("JSON");
  recall->add_option("--threshold", flags->options.threshold, "Only facts with this score or more")
      ->check(CLI::Validator(CheckScore, ""))
      ->type_name("0..1");
  recall->add_flag("--superseded", flags->options.superseded, "Also facts that a newer one replaced");
  AddMemoryFlags(*recall, flags->memory);
  AddEmbedFlag(*recall, flags->memory);
  recall->footer(kFooter);
  OnCommand(*recall, status, [flags] { return RunRecall(*flags); });
}

}  // namespace inferscale
