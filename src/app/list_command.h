// `inferscale list` and `inferscale history`: what is stored, and what became of a fact.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommands; *status becomes the exit status of the one that ran.
void AddListCommands(CLI::App& app, int* status);

}  // namespace inferscale
