#include "app/encode_command.h"

#include "app/console.h"
#include "app/encode_run.h"
#include "app/memory_session.h"

namespace inferscale {

namespace {

struct EncodeFlags {
  MemoryFlags memory;
  EngineFlags engine;
  std::string window = WindowSpec{}.ToString();
  bool all = false, every_namespace = false;
};

Result<int> RunEncode(const EncodeFlags& flags) {
  MemorySessionOptions options;
  options.memory = flags.memory;
  options.engine = flags.engine;
  options.command = "encode";
  TRY_ASSIGN(options.window, ParseWindowSpec(flags.window));
  TRY_ASSIGN(const std::unique_ptr<MemorySession> session, MemorySession::Open(std::move(options)));
  const EncodeWhat what = flags.all ? EncodeWhat::kAll : EncodeWhat::kQueued;
  TRY_ASSIGN(const EncodeRun run, RunEncoding(*session, flags.memory, what, flags.every_namespace));
  if (flags.memory.json)
    PrintJson(EncodeRunToJson(run, session->memory().vault()));
  else
    PrintEncodeRun(run, session->memory().vault());
  return EncodeStatus(run.stats);
}

constexpr const char* kEncodeFooter =
    R"(Facts are found, and used as text, from the moment they are remembered. Encoding computes their KV once,
so that answers inject it instead of computing the text. Interrupt it whenever you like: what is done is kept.

--all also computes what is not queued: after a change of --model or --encode-window, or what made room for other KV.
Each number is 1 to 200:
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
  AddEngineFlags(*encode, flags->engine, true);
  encode->footer(kEncodeFooter);
  OnCommand(*encode, status, [flags] { return RunEncode(*flags); });
}

}  // namespace inferscale
