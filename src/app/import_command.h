// `inferscale import`: adds the facts and turns of files, in batches.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddImportCommand(CLI::App& app, int* status);

}  // namespace inferscale
