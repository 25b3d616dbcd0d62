// `inferscale chat`: a conversation from memory in the terminal.
#pragma once

#include <CLI/CLI.hpp>

namespace inferscale {

void AddChatCommand(CLI::App& app, int* status);

}  // namespace inferscale
