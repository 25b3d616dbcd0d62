// `inferscale remember`: adds facts given on the command line, or a few from a file, all or none.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddRememberCommand(CLI::App& app, int* status);

}  // namespace inferscale
