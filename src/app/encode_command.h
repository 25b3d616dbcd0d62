// `inferscale encode`: computes the KV that facts of a memory wait for.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

void AddEncodeCommand(CLI::App& app, int* status);

}  // namespace inferscale
