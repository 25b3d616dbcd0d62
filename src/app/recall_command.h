// `inferscale recall`: the facts that suit a query best.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddRecallCommand(CLI::App& app, int* status);

}  // namespace inferscale
