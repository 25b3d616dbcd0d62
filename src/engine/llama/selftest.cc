#include "engine/llama/selftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/llama/continuation.h"

namespace inferscale {

namespace {

// Short texts prove nothing: at 160 tokens unrotated keys still reach a cosine of 0.9991.
constexpr uint32_t kTextTokens = 512;
constexpr uint32_t kSteps = 4;

// Plain sentences that differ, so that attention has something to tell apart.
std::string TestText() {
  static constexpr const char* kNames[] = {"Anna", "Boris", "Chen", "Dora", "Emil", "Farah", "Goran"};
  static constexpr const char* kThings[] = {"a red bicycle", "two tickets to Lisbon", "an old piano", "a box of seeds",
                                            "a map of the coast"};
  static constexpr const char* kPlaces[] = {"the harbour", "the market", "a friend", "the library", "her brother",
                                            "the museum shop"};
  std::string text;
  for (int i = 0; i < 64; ++i)
    text += fmt::format("{} bought {} from {} on day {} and paid {} crowns.\n", kNames[i % 7], kThings[i % 5],
                        kPlaces[i % 6], i + 3, 11 + i * 17 % 90);
  return text;
}

}  // namespace

Result<SelfTestReport> RunSelfTest(LlamaSession& session, const Tokenizer& tokenizer) {
  SelfTestReport report;
  report.ran = true;
  Tokens text = tokenizer.Text(TestText());
  const Tokens question = tokenizer.Text("Who bought an old piano, and where?\nAnswer:");
  if (text.size() < kTextTokens) return Fail(ErrorCode::kModelUnsupported, "its tokenizer makes too few tokens");
  text.resize(kTextTokens);
  const uint32_t need = kTextTokens + static_cast<uint32_t>(question.size()) + kSteps;
  if (session.context_tokens() < need + 64)
    return Fail(ErrorCode::kModelUnsupported, fmt::format("a context of {} tokens is too small for the self-test", session.context_tokens()));
  report.tokens = kTextTokens;
  report.shifts = {0, 37, (session.context_tokens() - need) / 2, session.context_tokens() - need};

  // One pass gives the records and, continued, the plain prefill.
  session.Clear();
  const uint32_t pieces[] = {kTextTokens};
  TRY_ASSIGN(const std::vector<KvPayload> payloads, session.DecodeAndCapture(text, 0, 0, pieces));
  TRY_ASSIGN(const Continuation plain, Continue(session, question, kTextTokens, kSteps));

  report.worst_cosine = report.unrotated_cosine = 1.0;
  report.same_argmax = true;
  bool unrotated_argmax = true;
  for (const uint32_t shift : report.shifts) {
    const PlacedRecord placed{&payloads[0], shift};
    for (const bool rotate : {true, false}) {
      TRY(session.Inject(nullptr, {&placed, 1}, shift + kTextTokens, rotate));
      TRY_ASSIGN(const Continuation injected, Continue(session, question, shift + kTextTokens, kSteps, plain.argmax));
      const Agreement agreement = Compare(plain, injected);
      double& worst = rotate ? report.worst_cosine : report.unrotated_cosine;
      worst = std::min(worst, agreement.cosine);
      bool& same = rotate ? report.same_argmax : unrotated_argmax;
      same = same && agreement.same_tokens;
    }
  }
  session.Clear();
  const bool control_fails = report.unrotated_cosine < kCosineMin || !unrotated_argmax;
  report.passed = report.worst_cosine >= kCosineMin && report.same_argmax && control_fails;
  report.detail = fmt::format("{} tokens at {} shifts up to {}: cosine >= {:.6f}, {} greedy tokens; without rotation {:.4f}{}",
                              report.tokens, report.shifts.size(), report.shifts.back(), report.worst_cosine,
                              report.same_argmax ? "same" : "different", report.unrotated_cosine,
                              control_fails ? "" : " (not told apart: the test proves nothing here)");
  return report;
}

namespace {
std::filesystem::path ReportPath(const std::filesystem::path& folder, const Hash128& identity) {
  return folder / ("self-test-" + identity.Hex() + ".json");
}
}  // namespace

std::optional<SelfTestReport> LoadSelfTest(const std::filesystem::path& folder, const Hash128& identity) {
  const Result<std::string> text = ReadFile(ReportPath(folder, identity), 64 * 1024);
  if (!text) return std::nullopt;
  const auto json = nlohmann::json::parse(*text, nullptr, false);
  SelfTestReport report;
  report.ran = true;
  try {
    report.passed = json.at("passed").get<bool>();
    report.tokens = json.at("tokens").get<uint32_t>();
    report.shifts = json.at("shifts").get<std::vector<uint32_t>>();
    report.worst_cosine = json.at("worst_cosine").get<double>();
    report.same_argmax = json.at("same_argmax").get<bool>();
    report.unrotated_cosine = json.at("unrotated_cosine").get<double>();
    report.detail = json.at("detail").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;  // damaged or of another version: run it again
  }
  return report;
}

void SaveSelfTest(const std::filesystem::path& folder, const Hash128& identity, const SelfTestReport& report) {
  const nlohmann::json json = {{"passed", report.passed},           {"tokens", report.tokens},
                               {"shifts", report.shifts},           {"worst_cosine", report.worst_cosine},
                               {"same_argmax", report.same_argmax}, {"unrotated_cosine", report.unrotated_cosine},
                               {"detail", report.detail}};
  // A folder that cannot be written only costs the test's time at the next start.
  if (MakeDirectories(folder)) (void)WriteFileAtomic(ReportPath(folder, identity), json.dump(1) + "\n");
}

}  // namespace inferscale
