// Options that every command with an engine shares.
#pragma once

#include <CLI/CLI.hpp>

#include "app/workspace.h"

namespace inferscale {

// Adds --model, --embed-model, --cache-dir, --threads, --context with their defaults, and checks after parsing that
// each path has a value (HOME may be unset). flags must outlive parsing.
void AddEngineFlags(CLI::App& command, EngineFlags& flags);

}  // namespace inferscale
