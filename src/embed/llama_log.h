// llama.cpp's and ggml's log, into ours.
#pragma once

#include <string>

namespace inferscale {

// Sends it to spdlog at level debug; without this it goes to standard error. Call before anything of llama.cpp. Safe to
// call often and from several threads.
void InitLlamaLog();

// The last error that llama.cpp logged on this thread, without its line end, and forgets it. "" if there was none. Its
// functions return a bare null on failure: the reason is only in the log.
std::string TakeLlamaError();

}  // namespace inferscale
