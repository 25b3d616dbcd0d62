#include "app/encode_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/memory_session.h"

namespace inferscale {

namespace {

struct EncodeFlags {
  MemoryFlags memory;
  EngineFlags engine;
  std::string window = WindowSpec{}.ToString();
  bool all = false, every_namespace = false;
};

double PerToken(const EncodeStats& stats) {
  return stats.fact_tokens == 0 ? 0.0
                                : static_cast<double>(stats.computed_tokens) / static_cast<double>(stats.fact_tokens);
}

void PrintStats(const EncodeStats& stats, bool json) {
  if (json)
    return PrintJson({{"encoded", stats.encoded},
                      {"failed", stats.failed},
                      {"fact_tokens", stats.fact_tokens},
                      {"computed_tokens", stats.computed_tokens},
                      {"computed_per_fact_token", PerToken(stats)},
                      {"seconds", stats.seconds}});
  if (stats.encoded == 0 && stats.failed == 0) return PrintOut("nothing to encode\n");
  PrintOut(fmt::format("{} facts encoded in {:.1f} s: {} tokens computed for {} fact tokens, {:.2f} each\n",
                       stats.encoded, stats.seconds, stats.computed_tokens, stats.fact_tokens, PerToken(stats)));
}

Result<int> RunEncode(const EncodeFlags& flags) {
  MemorySessionOptions options;
  options.memory = flags.memory;
  options.engine = flags.engine;
  options.command = "encode";
  TRY_ASSIGN(options.window, ParseWindowSpec(flags.window));
  TRY_ASSIGN(const std::unique_ptr<MemorySession> session, MemorySession::Open(std::move(options)));
  TRY(session->memory().ForgetExpired());
  const EncodeWhat what = flags.all ? EncodeWhat::kAll : EncodeWhat::kQueued;
  EncodeStats stats;
  {
    std::optional<ProgressBar> bar;
    EncodeControl control;
    if (!flags.memory.quiet)
      control.progress = [&](size_t done, size_t total) {
        if (!bar) bar.emplace("Encoding facts", "facts");
        bar->Update(done, total);
      };
    if (flags.every_namespace) {
      TRY_ASSIGN(stats, session->encoder().RunAll(what, control));
    } else {
      TRY_ASSIGN(const std::optional<NamespaceInfo> ns, FindNameSpace(session->memory(), flags.memory));
      if (ns) {
        TRY_ASSIGN(stats, session->encoder().Run(*ns, what, control));
      }
    }
  }
  TRY(session->memory().vault().Compact());
  PrintStats(stats, flags.memory.json);
  if (stats.failed == 0) return 0;
  PrintWarning(fmt::format("{} facts could not be encoded and stay text: {}", stats.failed, stats.last_error));
  return ExitStatus(ErrorCode::kEngine);
}

constexpr const char* kEncodeFooter =
    R"(Facts are found, and used as text, from the moment they are remembered. Encoding computes their KV once,
so that answers inject it instead of computing the text. Interrupt it whenever you like: what is done is kept.

--all also computes anew what has KV, for instance with another --encode-window. Each number is 1 to 200:
  anchored:C  runs of C facts in order, each run behind the C facts before it; computed in one pass
  facts:N     the N facts before each
  turns:W     the W turns before each fact's own turn (`inferscale import --turns`)
  none        nothing

Examples:
  inferscale encode --namespace user:alex
  inferscale encode --every-namespace
  inferscale encode --all --encode-window facts:20)";

}  // namespace

void AddEncodeCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<EncodeFlags>();
  CLI::App* encode = app.add_subcommand("encode", "Compute the KV that facts of a memory wait for");
  AddMemoryFlags(*encode, flags->memory);
  AddBudgetFlag(*encode, flags->memory);
  encode->add_flag("--every-namespace", flags->every_namespace, "All namespaces, those in use first");
  encode->add_flag("--all", flags->all, "Also facts that have KV");
  encode->add_option("--encode-window", flags->window, "What a fact sees when its KV is computed, see below")
      ->type_name("anchored:C|facts:N|turns:W|none")
      ->capture_default_str();
  AddEngineFlags(*encode, flags->engine);
  encode->footer(kEncodeFooter);
  OnCommand(*encode, status, [flags] { return RunEncode(*flags); });
}

}  // namespace inferscale
