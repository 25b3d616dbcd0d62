// `inferscale demo`: a two-person history, five questions, each answered as text and with injection.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {
void AddDemoCommand(CLI::App& app, int* status);
}
