#include "app/memory_flags.h"

#include <fmt/format.h>

#include "app/console.h"
#include "app/paths.h"
#include "app/terminal_text.h"
#include "base/dir_lock.h"
#include "base/limits.h"
#include "embed/make_embedder.h"

namespace inferscale {

namespace {

Result<std::unique_ptr<Embedder>> LoadMemoryEmbedder(const std::string& model) {
  Result<std::unique_ptr<Embedder>> made = MakeEmbedder({.model = model});
  if (made) return made;
  Error error = std::move(made).error();
  if (error.code == ErrorCode::kNotFound)
    error.message += ": `make setup` fetches the default model; or name a GGUF file or a URL with --embed-model";
  const int range = static_cast<int>(error.code) / 100;
  if (range == 1 || range == 3) error.code = ErrorCode::kModelLoad;  // not the user's words, not our stored data
  return tl::unexpected<Error>(std::move(error));
}

Status CheckFolder(const MemoryFlags& flags, std::string_view command, MemoryUse use) {
  std::error_code ec;
  const bool is_there = Memory::IsIn(flags.data_folder);
  if (is_there || (use == MemoryUse::kAdd && std::filesystem::exists(flags.data_folder, ec)))
    TRY(DirLock::Acquire(flags.data_folder, command));  // and let go: who is not alone need not load a model
  if (is_there || use == MemoryUse::kAdd) return {};
  return Fail(ErrorCode::kNotFound, fmt::format("there is no memory in {}: `inferscale remember` or `inferscale "
                                                "import` makes one, --data-dir names another",
                                                flags.data_folder.string()));
}

}  // namespace

void AddMemoryPlace(CLI::App& command, MemoryFlags& flags, CLI::Option* other) {
  const DefaultPath folder = DefaultDataFolder();
  flags.data_folder = folder.path;
  CLI::Option* place =
      command
          .add_option("--data-dir", flags.data_folder, "Folder of the memory; $INFERSCALE_DATA names another default")
          ->default_str(folder.shown)
          ->type_name("DIR");
  CLI::Option* name_space =
      command.add_option("--namespace", flags.name_space, "Whose facts: namespaces never see each other")
          ->type_name("NAME")
          ->capture_default_str();
  if (other == nullptr) return;
  other->excludes(place);
  other->excludes(name_space);
}

void AddMemoryFlags(CLI::App& command, MemoryFlags& flags) {
  AddMemoryPlace(command, flags);
  command.add_flag("--json", flags.json, "Print JSON");
  command.add_flag("--quiet", flags.quiet, "No progress, no notes; warnings remain");
}

void AddEmbedFlag(CLI::App& command, MemoryFlags& flags) {
  const DefaultPath model = DefaultEmbedModel();
  flags.embed_model = model.path.string();
  command
      .add_option("--embed-model", flags.embed_model,
                  "Embedding model: a GGUF file, or an OpenAI-compatible URL, http://HOST:PORT/v1#MODEL (the default "
                  "one is for English)")
      ->default_str(model.shown)
      ->type_name("GGUF|URL");
}

void AddBudgetFlags(CLI::App& command, MemoryFlags& flags) {
  const CLI::Validator size(
      [](std::string& given) -> std::string {
        const char* help = "write a size like 500MiB or 2GiB, from 1MiB on";
        std::string bytes = given;
        uint64_t value = 0;
        try {
          if (!CLI::AsSizeValue(false)(bytes).empty() || !CLI::detail::lexical_cast(bytes, value)) return help;
        } catch (const CLI::ValidationError&) {  // a unit that it does not know
          return help;
        }
        // The range last: the conversion takes -5 for 2^64 - 5.
        if (value < limits::kKvBudgetBytesMin || value > limits::kKvBudgetBytes) return help;
        given = bytes;
        return {};
      },
      "");
  const auto add = [&](const char* name, uint64_t& bytes, const char* help) {
    command.add_option(name, bytes, help)->transform(size)->type_name("SIZE");
  };
  add("--kv-budget", flags.kv_budget,
      "Bytes on disk for KV, such as 2GiB, from now on; at first 10 GiB, or a tenth of the free space if that is less");
  add("--kv-namespace-budget", flags.kv_namespace_budget,
      "The most that the KV of one namespace takes of them, from now on; at first all");
}

Result<OpenedMemory> OpenMemory(const MemoryFlags& flags, std::string_view name, MemoryUse use) {
  if (flags.data_folder.empty())
    return Fail(ErrorCode::kInvalidArgument, "--data-dir: there is no path: give one, or set HOME");
  MemoryOptions options;
  options.data_folder = flags.data_folder;
  options.command = fmt::format("inferscale {}", name);
  options.kv.disk_bytes = flags.kv_budget;
  options.kv.name_space_bytes = flags.kv_namespace_budget;
  if (!flags.kv_encoding.empty()) options.kv_encoding = ParseKvEncoding(flags.kv_encoding);
  options.check_pages = flags.check_pages;
  options.any_embedder = use == MemoryUse::kReembed;
  TRY(CheckFolder(flags, options.command, use));
  OpenedMemory opened;
  if (use != MemoryUse::kLook) {
    TRY_ASSIGN(opened.embedder, LoadMemoryEmbedder(flags.embed_model));
  }
  TRY_ASSIGN(opened.memory, Memory::Open(options, opened.embedder.get()));
  return opened;
}

Result<std::optional<NamespaceInfo>> FindNameSpace(Memory& memory, const MemoryFlags& flags) {
  Result<NamespaceInfo> found = memory.Find(flags.name_space);
  if (found) return std::optional(std::move(*found));
  if (found.error().code != ErrorCode::kNotFound) return tl::unexpected<Error>(std::move(found).error());
  if (!flags.quiet) PrintNote(fmt::format("the namespace {} is empty", ForTerminal(flags.name_space)));
  return std::optional<NamespaceInfo>();
}

void OnCommand(CLI::App& command, int* status, std::function<Result<int>()> run) {
  command.callback([run = std::move(run), status] {
    const Result<int> done = run();
    if (!done) PrintError(done.error());
    *status = done ? *done : ExitStatus(done.error().code);
  });
}

}  // namespace inferscale
