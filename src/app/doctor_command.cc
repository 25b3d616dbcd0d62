#include "app/doctor_command.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/console.h"
#include "app/engine_flags.h"
#include "embed/llama_embedder.h"
#include "engine/llama/llama_engine.h"
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
std::string TemplateState(const LlamaEngine& engine) {
  const PromptLayout layout = PromptLayout::Make(engine.tokenizer(), engine.chat_template());
  const char* form = layout.form() == PromptForm::kSystemTurn      ? "facts in the system block"
                     : layout.form() == PromptForm::kFirstUserTurn ? "facts in the first user message"
                                                                   : "plain prompt";
  std::string state = form;
  if (!layout.note().empty()) state += "; " + layout.note();
  if (const Status checked = layout.Check(); !checked) state += "; text mode: " + checked.error().message;
  return state;
}

nlohmann::ordered_json Examine(const LlamaEngine& engine) {
  const EngineInfo& info = engine.info();
  const SelfTestReport& test = info.self_test;
  return {{"cpu", CpuFeatures()},
          {"threads", std::thread::hardware_concurrency()},
          {"model", info.model_name},
          {"model_path", info.model_path},
          {"architecture", info.architecture},
          {"model_key", info.model_key.Hex()},
          {"context_tokens", info.context_tokens},
          {"kv_bytes_per_token", info.kv_shape.ElementsPerToken() * 2},
          {"rope", info.rope.Describe()},
          {"template", TemplateState(engine)},
          {"self_test",
           {{"ran", test.ran},
            {"passed", test.passed},
            {"tokens", test.tokens},
            {"shifts", test.shifts},
            {"worst_cosine", test.worst_cosine},
            {"same_argmax", test.same_argmax},
            {"unrotated_cosine", test.unrotated_cosine}}},
          {"mode", info.can_inject ? "kv" : "text"},
          {"reason", info.can_inject ? "the self-test passed: " + test.detail : info.text_mode_reason}};
}

Status RunDoctor(const DoctorFlags& flags) {
  TRY_ASSIGN(const auto engine,
             LlamaEngine::Load({.model_path = flags.engine.model,
                                .threads = flags.engine.threads,
                                .context_tokens = flags.engine.context_tokens,
                                .text_only = false,
                                .cache_folder = flags.rerun ? std::filesystem::path() : flags.engine.cache_folder}));
  nlohmann::ordered_json report = Examine(*engine);
  const auto embedder = LlamaEmbedder::Load(flags.engine.embed_model, flags.engine.threads);
  report["embedder"] = embedder ? (*embedder)->name() + ", " + std::to_string((*embedder)->dim()) + " dimensions"
                                : "not usable: " + embedder.error().message;
  if (flags.json) {
    PrintOut(report.dump(2) + "\n");
    return {};
  }
  for (const auto& [key, value] : report.items()) {
    if (value.is_object()) continue;  // the reason line tells the self-test in words
    PrintOut(fmt::format("{:<20} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return {};
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor =
      app.add_subcommand("doctor", "Check CPU, model, rope and self-test; say which mode it would run in, and why");
  AddEngineFlags(*doctor, flags->engine);
  doctor->add_flag("--json", flags->json, "Print one JSON object");
  doctor->add_flag("--rerun", flags->rerun, "Run the self-test again instead of showing the kept result");
  doctor->callback([flags, status] {
    if (const Status done = RunDoctor(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
