// What a person sees: results on standard output, everything else on standard error.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// The process's exit status for an error: 2 the input, 3 the machine (disk, rights), 4 stored data, 5 model or engine,
// 130 cancelled, 70 a bug of ours, 78 a CPU it was not built for.
int ExitStatus(ErrorCode code);

void PrintError(const Error& error);          // "inferscale: error: …" on stderr
void PrintWarning(std::string_view message);  // "inferscale: warning: …" on stderr, also when quiet was asked for
void PrintNote(std::string_view message);     // "inferscale: note: …" on stderr; the caller leaves it out when quiet
void PrintOut(std::string_view text);         // stdout, no line end added
void PrintJson(const nlohmann::ordered_json& json);  // stdout, indented, valid UTF-8 whatever names hold

// Before anything else: warnings of the libraries go to standard error, and a standard stream that was closed gets a
// place holder, so that no file of ours takes its number and then receives what is printed.
void PrepareStreams();
// The process's exit status: `status`, or that of kIo, with an error told, when something printed did not get out.
int FinishOutput(int status);

// A line of progress on standard error: redrawn in place on a terminal, at most every few seconds elsewhere.
class ProgressBar {
 public:
  ProgressBar(std::string label, std::string unit);
  ~ProgressBar();  // ends the line
  void Update(size_t done, size_t total) { Update(done, total, std::chrono::steady_clock::now()); }
  void Update(size_t done, size_t total, std::chrono::steady_clock::time_point now);

 private:
  std::string label_, unit_;
  bool terminal_;
  bool drawn_ = false;
  size_t first_ = 0;  // done at the first update: the rate counts from there
  std::chrono::steady_clock::time_point start_, last_;  // set by the first update
};

// "1 fact", "2 facts".
std::string Counted(uint64_t count, std::string_view what);

}  // namespace inferscale
