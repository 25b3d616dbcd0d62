// `inferscale doctor`: what this machine and model can do, and what to change.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {
void AddDoctorCommand(CLI::App& app, int* status);
}
