// `inferscale ask`: one question, answered from a file of facts.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddAskCommand(CLI::App& app, int* status);

}  // namespace inferscale
