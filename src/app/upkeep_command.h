// `inferscale stats`, `inferscale fsck` and `inferscale reembed`: the state of a data folder, and its repair.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommands; *status becomes the exit status of the one that ran.
void AddUpkeepCommands(CLI::App& app, int* status);

}  // namespace inferscale
