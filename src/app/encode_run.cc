#include "app/encode_run.h"

#include <fmt/format.h>

#include <optional>

#include "app/console.h"

namespace inferscale {

namespace {

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

}  // namespace

Result<EncodeRun> RunEncoding(MemorySession& session, const MemoryFlags& flags, EncodeWhat what, bool every_namespace) {
  TRY(session.memory().ForgetExpired());
  FactEncoder& encoder = session.encoder();
  EncodeRun run;
  std::optional<NamespaceInfo> ns;
  if (!every_namespace) {
    TRY_ASSIGN(ns, FindNameSpace(session.memory(), flags));
    if (!ns) return run;
  }
  {
    std::optional<ProgressBar> bar;
    EncodeControl control;
    if (!flags.quiet)
      control.progress = [&](size_t done, size_t total) {
        if (!bar) bar.emplace("Encoding facts", "facts");
        bar->Update(done, total);
      };
    TRY_ASSIGN(run.stats, ns ? encoder.Run(*ns, what, control) : encoder.RunAll(what, control));
  }
  TRY(session.memory().vault().Compact());
  const auto one = ns ? std::optional(ns->id) : std::nullopt;
  TRY_ASSIGN(run.text, session.memory().catalog().CountWithoutKv(one, session.engine().info().model_key));
  return run;
}

nlohmann::ordered_json EncodeRunToJson(const EncodeRun& run, const KvVault& vault) {
  const QuantisedStats quantised = vault.quantised_stats();
  return {{"encoded", run.stats.encoded},
          {"failed", run.stats.failed},
          {"text", run.text},
          {"fact_tokens", run.stats.fact_tokens},
          {"computed_tokens", run.stats.computed_tokens},
          {"computed_per_fact_token", PerToken(run.stats)},
          {"seconds", run.stats.seconds},
          {"kv_encoding", KvEncodingName(vault.encoding())},
          {"quantised", quantised.records},
          {"clipped_share", ClippedShare(quantised)}};
}

void PrintEncodeRun(const EncodeRun& run, const KvVault& vault) {
  const EncodeStats& stats = run.stats;
  if (stats.encoded > 0 || stats.failed > 0) {
    PrintOut(fmt::format("{} encoded in {:.1f} s: {} tokens computed for {} fact tokens, {:.2f} each\n",
                         Counted(stats.encoded, "fact"), stats.seconds, stats.computed_tokens, stats.fact_tokens,
                         PerToken(stats)));
    PrintQuantised(vault.quantised_stats(), vault.encoding());
  } else {
    PrintOut(fmt::format("nothing is queued; KV is stored as {}\n", KvEncodingName(vault.encoding())));
  }
  if (run.text > 0)
    PrintOut(
        fmt::format("{} without KV for this model that wait for none: their records made room for others, or are "
                    "another model's. `inferscale encode --all` computes them\n",
                    Counted(run.text, "fact")));
}

int EncodeStatus(const EncodeStats& stats) {
  if (stats.failed == 0) return 0;
  PrintWarning(fmt::format("{} facts could not be encoded and stay text: {}", stats.failed, stats.last_error));
  return ExitStatus(ErrorCode::kEngine);
}

}  // namespace inferscale
