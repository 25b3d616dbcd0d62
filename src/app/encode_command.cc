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

double ClippedShare(const QuantisedStats& stats) {
  return stats.key_values == 0 ? 0.0 : static_cast<double>(stats.clipped) / static_cast<double>(stats.key_values);
}

void PrintQuantised(const QuantisedStats& stats, KvEncoding encoding) {
  if (!IsQuantised(encoding) || stats.records + stats.exact == 0) return;
  PrintOut(fmt::format("stored {} as {}, {:.2f} % of their keys clipped, and {} as f16{}\n", stats.records,
                       KvEncodingName(encoding), 100 * ClippedShare(stats), stats.exact,
                       stats.exact > 0 ? ": before the calibration, or where it does not fit" : ""));
}

void PrintStats(const EncodeStats& stats, const KvVault& vault, bool json) {
  const QuantisedStats quantised = vault.quantised_stats();
  if (json)
    return PrintJson({{"encoded", stats.encoded},
                      {"failed", stats.failed},
                      {"fact_tokens", stats.fact_tokens},
                      {"computed_tokens", stats.computed_tokens},
                      {"computed_per_fact_token", PerToken(stats)},
                      {"seconds", stats.seconds},
                      {"kv_encoding", KvEncodingName(vault.encoding())},
                      {"quantised", quantised.records},
                      {"clipped_share", ClippedShare(quantised)}});
  if (stats.encoded == 0 && stats.failed == 0) return PrintOut("nothing to encode\n");
  PrintOut(fmt::format("{} facts encoded in {:.1f} s: {} tokens computed for {} fact tokens, {:.2f} each\n",
                       stats.encoded, stats.seconds, stats.computed_tokens, stats.fact_tokens, PerToken(stats)));
  PrintQuantised(quantised, vault.encoding());
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
  PrintStats(stats, session->memory().vault(), flags.memory.json);
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

int8 and int4 begin when there is KV of 2,048 tokens to calibrate them with; what is stored before stays exact. Answers
stay those of f16 but for near ties with int8, nearly so with int4 (docs/performance.md).

Examples:
  inferscale encode --namespace user:alex
  inferscale encode --every-namespace
  inferscale encode --all --encode-window facts:20)";

}  // namespace

void AddEncodeCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<EncodeFlags>();
  CLI::App* encode = app.add_subcommand("encode", "Compute the KV that facts of a memory wait for");
  AddMemoryFlags(*encode, flags->memory);
  AddBudgetFlags(*encode, flags->memory);
  encode->add_flag("--every-namespace", flags->every_namespace, "All namespaces, those in use first");
  encode->add_flag("--all", flags->all, "Also facts that have KV");
  encode->add_option("--encode-window", flags->window, "What a fact sees when its KV is computed, see below")
      ->type_name("anchored:C|facts:N|turns:W|none")
      ->capture_default_str();
  encode
      ->add_option("--kv-encoding", flags->memory.kv_encoding,
                   "How KV is stored from now on, in this folder: f16 is exact, int8 takes half, int4 a quarter")
      ->check(CLI::IsMember({"f16", "int8", "int4"}).description(""))
      ->type_name("f16|int8|int4");
  AddEngineFlags(*encode, flags->engine);
  encode->footer(kEncodeFooter);
  OnCommand(*encode, status, [flags] { return RunEncode(*flags); });
}

}  // namespace inferscale
