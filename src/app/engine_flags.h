// Options that every command with an engine shares.
#pragma once

#include <CLI/CLI.hpp>

#include "app/workspace.h"

namespace inferscale {

// Adds --model, --embed-model, --cache-dir, --threads, --context with their defaults. flags must outlive parsing.
// has_memory: for a command that works with a memory (--data-dir), whose embedder may be a URL too.
void AddEngineFlags(CLI::App& command, EngineFlags& flags, bool has_memory = false);

// After parsing: each path has a value; without HOME there may be no default. kInvalidArgument.
Status CheckEngineFlags(const EngineFlags& flags);

}  // namespace inferscale
