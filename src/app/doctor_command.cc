#include "app/doctor_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/models.h"
#include "engine/prompt_layout.h"

namespace inferscale {

namespace {

struct DoctorFlags {
  EngineFlags engine;
  bool json = false, rerun = false;
};

std::string CpuFeatures() {
  std::string features;
  __builtin_cpu_init();
#define INFERSCALE_FEATURE(name) \
  if (__builtin_cpu_supports(name)) features += features.empty() ? name : " " name
  INFERSCALE_FEATURE("avx");
  INFERSCALE_FEATURE("avx2");
  INFERSCALE_FEATURE("fma");
  INFERSCALE_FEATURE("bmi2");
  INFERSCALE_FEATURE("avx512f");
  INFERSCALE_FEATURE("avx512bw");
  INFERSCALE_FEATURE("avx512vnni");
#undef INFERSCALE_FEATURE
  return features;
}

// Which prompt form the model's template allows, and why not a better one.
std::string TemplateState(const PromptLayout& layout) {
  const char* form = layout.form() == PromptForm::kSystemTurn      ? "facts in the system block"
                     : layout.form() == PromptForm::kFirstUserTurn ? "facts in the first user message"
                                                                   : "plain prompt";
  std::string state = form;
  if (!layout.note().empty()) state += "; " + layout.note();
  return state;
}

nlohmann::ordered_json Examine(const Engine& engine) {
  const PromptLayout layout = PromptLayout::Make(engine.tokenizer(), engine.chat_template());
  const std::string text_mode_reason = TextModeReason(engine, layout);
  const EngineInfo& info = engine.info();
  const SelfTestReport& test = info.self_test;
  return {{"cpu", CpuFeatures()},
          {"threads", info.threads},
          {"device", info.device},
          {"model", info.model_name},
          {"model_path", info.model_path},
          {"architecture", info.architecture},
          {"model_key", info.model_key.Hex()},
          {"context_tokens", info.context_tokens},
          {"kv_bytes_per_token", info.kv_shape.ElementsPerToken() * 2},
          {"rope", info.rope.Describe()},
          {"template", TemplateState(layout)},
          {"self_test",
           {{"ran", test.ran},
            {"passed", test.passed},
            {"tokens", test.tokens},
            {"shifts", test.shifts},
            {"cosine_bound", test.cosine_bound},
            {"worst_cosine", test.worst_cosine},
            {"same_argmax", test.same_argmax},
            {"unrotated_cosine", test.unrotated_cosine}}},
          {"mode", text_mode_reason.empty() ? "kv" : "text"},
          {"reason", text_mode_reason.empty() ? "the self-test passed: " + test.detail : text_mode_reason}};
}

Status RunDoctor(const DoctorFlags& flags) {
  TRY_ASSIGN(const std::unique_ptr<Engine> engine, LoadEngine(flags.engine, {.kept_verdict = !flags.rerun}));
  nlohmann::ordered_json report = Examine(*engine);
  const Result<std::unique_ptr<Embedder>> embedder = LoadEmbedder(flags.engine);
  report["embedder"] = embedder ? (*embedder)->name() + ", " + std::to_string((*embedder)->dim()) + " dimensions"
                                : "not usable: " + embedder.error().message;
  if (flags.json) {
    PrintJson(report);
  } else {
    for (const auto& [key, value] : report.items()) {
      if (value.is_object()) continue;  // the reason line tells the self-test in words
      PrintOut(fmt::format("{:<20} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  if (!embedder) return tl::unexpected<Error>(embedder.error());  // nothing can be asked without it
  return {};
}

constexpr const char* kDoctorFooter =
    R"(The self-test injects a text's own KV at shifted positions and compares how the model goes on with a plain
prefill; the control, without rotation, must fail. A model that does not pass answers from text alone; mode and
reason say so. Exit status 5 when a model cannot be used at all.

Examples:
  inferscale doctor
  inferscale doctor --model other.gguf --threads 8 --rerun)";

}  // namespace

void AddDoctorCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check CPU, model, rope and self-test; say which mode it would run in, and why");
  AddEngineFlags(*doctor, flags->engine);
  doctor->add_flag("--json", flags->json, "Print one JSON object");
  doctor->add_flag("--rerun", flags->rerun, "Run the self-test again instead of showing the kept result");
  doctor->footer(kDoctorFooter);
  doctor->callback([flags, status] {
    if (const Status done = RunDoctor(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
