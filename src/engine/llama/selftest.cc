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
constexpr uint32_t kSteps = 2;  // of each question
constexpr const char* kQuestions[] = {"Who bought an old piano, and where?\nAnswer:", "In summary, Anna bought",
                                      "The most interesting thing about these purchases is that"};
constexpr uint32_t kQuestionRoom = 64;  // tokens kept for the longest question and its steps

// Plain sentences that differ, so that attention has something to tell apart.
std::string TestText() {
  static constexpr const char* kNames[] = {"Anna", "Boris", "Chen", "Dora", "Emil", "Farah", "Goran"};
  static constexpr const char* kThings[] = {"a red bicycle", "two tickets to Lisbon", "an old piano", "a box of seeds",
                                            "a map of the coast"};
  static constexpr const char* kPlaces[] = {"the harbour", "the market",  "a friend",
                                            "the library", "her brother", "the museum shop"};
  std::string text;
  for (int i = 0; i < 64; ++i)
    text += fmt::format("{} bought {} from {} on day {} and paid {} crowns.\n", kNames[i % 7], kThings[i % 5],
                        kPlaces[i % 6], i + 3, 11 + i * 17 % 90);
  return text;
}

}  // namespace

namespace {

using OnStep = std::function<void(size_t done, size_t total)>;

class SelfTest {
 public:
  SelfTest(LlamaSession& session, const Tokenizer& tokenizer, const OnStep& on_step)
      : session_(session), on_step_(on_step), text_(tokenizer.Text(TestText())) {
    for (const char* question : kQuestions) questions_.push_back(tokenizer.Text(question));
  }

  Result<SelfTestReport> Run() {
    if (text_.size() < kTextTokens) return Fail(ErrorCode::kModelUnsupported, "its tokenizer makes too few tokens");
    text_.resize(kTextTokens);
    const uint32_t need = kTextTokens + kQuestionRoom, context = session_.context_tokens();
    if (context < 2 * need)
      return Fail(
          ErrorCode::kModelUnsupported,
          fmt::format("a context of {} tokens is too small to check that injection is right: {} is the smallest",
                      context, 2 * need));
    SelfTestReport report{.ran = true, .tokens = kTextTokens, .shifts = {0, 37, (context - need) / 2, context - need}};

    session_.Clear();
    steps_ = 3 + 2 * report.shifts.size();
    Step(0);
    const uint32_t pieces[] = {kTextTokens};
    TRY_ASSIGN(payloads_, session_.DecodeAndCapture(text_, 0, 0, pieces));
    Step(1);
    TRY_ASSIGN(plain_, Plain(0));
    TRY_ASSIGN(const std::vector<Continuation> elsewhere, Plain(report.shifts[1]));
    const Agreement own = Compare(plain_, elsewhere);
    TRY_ASSIGN(const Agreement rotated, Injected(report.shifts, true));
    TRY_ASSIGN(const Agreement unrotated, Injected(report.shifts, false));
    session_.Clear();

    const AgreementBound bound = BoundOf(own);
    report.cosine_bound = bound.cosine;
    report.worst_cosine = rotated.cosine;
    report.same_argmax = rotated.flip <= bound.flip;
    report.unrotated_cosine = unrotated.cosine;
    const bool control_fails = !Agree(unrotated, bound);
    report.passed = Agree(rotated, bound) && control_fails;
    report.detail = fmt::format(
        "{} tokens at {} shifts up to {}: cosine {:.5f} (at least {:.5f}; the engine with itself {:.5f}), {} greedy "
        "tokens; without rotation {:.4f}{}",
        report.tokens, report.shifts.size(), report.shifts.back(), rotated.cosine, report.cosine_bound, own.cosine,
        report.same_argmax ? "same" : "different", unrotated.cosine,
        control_fails ? "" : " (not told apart: the test proves nothing here)");
    return report;
  }

 private:
  // All questions, each behind the text as Fill puts it there.
  template <class Fill>
  Result<std::vector<Continuation>> Ask(uint32_t shift, Fill fill) {
    std::vector<Continuation> all;
    for (size_t i = 0; i < questions_.size(); ++i) {
      TRY(fill());
      TRY_ASSIGN(Continuation one, Continue(session_, questions_[i], shift + kTextTokens, kSteps,
                                            plain_.empty() ? Tokens() : plain_[i].argmax));
      all.push_back(std::move(one));
    }
    return all;
  }

  // The text computed at `shift`, once: what a question added is taken off again.
  Result<std::vector<Continuation>> Plain(uint32_t shift) {
    session_.Clear();
    TRY(session_.Decode(text_, shift, false));
    auto asked = Ask(shift, [&] { return session_.Truncate(shift + kTextTokens); });
    Step(1);
    return asked;
  }

  // Worst over the shifts.
  Result<Agreement> Injected(std::span<const uint32_t> shifts, bool rotate) {
    Agreement worst;
    for (const uint32_t shift : shifts) {
      const PlacedRecord placed{&payloads_[0], shift};
      const auto fill = [&]() -> Status {
        TRY(session_.Inject(nullptr, {&placed, 1}, shift + kTextTokens, rotate));
        return {};
      };
      TRY_ASSIGN(const std::vector<Continuation> injected, Ask(shift, fill));
      const Agreement agreement = Compare(plain_, injected);
      worst.cosine = std::min(worst.cosine, agreement.cosine);
      worst.flip = std::max(worst.flip, agreement.flip);
      Step(1);
    }
    return worst;
  }

  void Step(size_t made) {
    done_ += made;
    if (on_step_) on_step_(done_, steps_);
  }

  LlamaSession& session_;
  const OnStep& on_step_;
  size_t done_ = 0, steps_ = 0;
  Tokens text_;
  std::vector<Tokens> questions_;
  std::vector<KvPayload> payloads_;
  std::vector<Continuation> plain_;
};

}  // namespace

Result<SelfTestReport> RunSelfTest(LlamaSession& session, const Tokenizer& tokenizer, const OnStep& on_step) {
  return SelfTest(session, tokenizer, on_step).Run();
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
    report.cosine_bound = json.at("cosine_bound").get<double>();
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
  const nlohmann::json json = {{"passed", report.passed},
                               {"tokens", report.tokens},
                               {"cosine_bound", report.cosine_bound},
                               {"shifts", report.shifts},
                               {"worst_cosine", report.worst_cosine},
                               {"same_argmax", report.same_argmax},
                               {"unrotated_cosine", report.unrotated_cosine},
                               {"detail", report.detail}};
  // A folder that cannot be written only costs the test's time at the next start.
  if (MakeDirectories(folder)) (void)WriteFileAtomic(ReportPath(folder, identity), json.dump(1) + "\n");
}

}  // namespace inferscale
