// `inferscale update`: changes one fact.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddUpdateCommand(CLI::App& app, int* status);

}  // namespace inferscale
