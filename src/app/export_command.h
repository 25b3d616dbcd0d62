// `inferscale export`: a namespace as JSON Lines that `import` reads.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddExportCommand(CLI::App& app, int* status);

}  // namespace inferscale
