// What the commands on a data folder share: their options, opening the memory, and how they end.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "embed/embedder.h"
#include "memory/memory.h"

namespace inferscale {

struct MemoryFlags {
  std::filesystem::path data_folder;
  std::string name_space = "default";
  std::string embed_model;  // a GGUF file or a URL
  uint64_t kv_budget = 0;   // bytes; 0: as the folder has it
  uint64_t kv_namespace_budget = 0;
  std::string kv_encoding;  // "": as the folder has it
  bool json = false, quiet = false;
  bool check_pages = true;  // false: also a memory whose catalog has damaged pages
};

// Adds --data-dir, --namespace, --json and --quiet. flags must outlive parsing.
void AddMemoryFlags(CLI::App& command, MemoryFlags& flags);
// Adds --data-dir and --namespace alone; neither goes with the option `other` (may be null).
void AddMemoryPlace(CLI::App& command, MemoryFlags& flags, CLI::Option* other = nullptr);
// Adds --embed-model, for commands that search or add.
void AddEmbedFlag(CLI::App& command, MemoryFlags& flags);
// Adds --kv-budget and --kv-namespace-budget, for commands that are there to change what the store keeps.
void AddBudgetFlags(CLI::App& command, MemoryFlags& flags);

// What a command does with the folder.
enum class MemoryUse : uint8_t {
  kLook,     // the folder must be there; no embedder
  kSearch,   // the folder must be there
  kAdd,      // the folder is made
  kReembed,  // must be there; the stored vectors may be of another embedder
};

struct OpenedMemory {
  std::unique_ptr<Embedder> embedder;  // null for kLook; before the memory, which uses it
  std::unique_ptr<Memory> memory;
};

// name: of the command, which a second process is told. kNotFound: there is no memory in the folder, and `use` makes
// none. kInUse, at once and before any model is loaded. Whatever is wrong with the embedding model is kModelLoad.
Result<OpenedMemory> OpenMemory(const MemoryFlags& flags, std::string_view name, MemoryUse use);

// The namespace, or nullopt and a note on standard error when nothing was ever stored under its name.
Result<std::optional<NamespaceInfo>> FindNameSpace(Memory& memory, const MemoryFlags& flags);

// Runs `run` when the subcommand was given: *status becomes the exit status it returns, or that of its error, told.
void OnCommand(CLI::App& command, int* status, std::function<Result<int>()> run);

inline constexpr int kIncomplete = 2;  // exit status of a command that could not do all that it was asked for

}  // namespace inferscale
