#include "embed/llama_log.h"

#include <ggml.h>
#include <llama.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <string_view>
#include <utility>

namespace inferscale {

namespace {

constexpr size_t kLineBytes = 4096;  // a longer line is logged in parts

// Per thread: llama.cpp logs from its callers' threads, and a line may come in several pieces.
thread_local std::string pending_line;
thread_local std::string last_error;

void LogPendingLine() {
  while (!pending_line.empty() && (pending_line.back() == '\n' || pending_line.back() == '\r')) pending_line.pop_back();
  if (!pending_line.empty()) spdlog::debug("llama.cpp: {}", pending_line);
  pending_line.clear();
}

void OnLlamaLog(ggml_log_level level, const char* text, void*) {
  try {
    const std::string_view piece = text;
    pending_line += piece;
    if (level == GGML_LOG_LEVEL_ERROR) last_error = piece.substr(0, std::min(piece.find('\n'), kLineBytes));
    if (piece.ends_with('\n') || pending_line.size() > kLineBytes) LogPendingLine();
  } catch (...) {  // called from C: a log line is not worth a crash
    pending_line.clear();
  }
}

}  // namespace

void InitLlamaLog() {
  static std::once_flag once;
  std::call_once(once, [] { llama_log_set(OnLlamaLog, nullptr); });
}

std::string TakeLlamaError() { return std::exchange(last_error, {}); }

}  // namespace inferscale
