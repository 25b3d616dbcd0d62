// `inferscale forget`: deletes facts, their KV and every copy.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

// Adds the subcommand; *status becomes the exit status when it ran.
void AddForgetCommand(CLI::App& app, int* status);

}  // namespace inferscale
