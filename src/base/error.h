// Errors are values: every fallible function returns Result<T>. No exception crosses a module border.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace inferscale {

// One enum for the whole product, in ranges, so that a code alone says which layer failed and, in the command,
// which exit status the process ends with (ExitStatus).
enum class ErrorCode : uint16_t {
  // 100..199: the caller's input
  kInvalidArgument = 100,
  kInvalidUtf8 = 101,
  kInvalidJson = 102,
  kInvalidDate = 103,
  kTooLarge = 104,
  kNotFound = 105,
  kPromptTooLong = 106,
  kConflict = 107,  // what is stored says otherwise: another version, another request under the same key
  // 200..299: the machine
  kIo = 200,
  kNoSpace = 201,
  kPermission = 202,
  kInUse = 203,  // by another process
  // 300..399: stored data
  kCorrupt = 300,
  kVersionUnsupported = 301,
  kMismatch = 302,
  // 400..499: models and engines
  kModelLoad = 400,
  kModelUnsupported = 401,
  kEngine = 402,
  kCancelled = 403,
  // 900..999: our bugs
  kInternal = 900,
};

// Stable lower-case name ("invalid_argument"), for logs and JSON output.
std::string_view ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // one sentence in English: what is wrong, and what to do about it
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// return Fail(ErrorCode::kIo, "cannot read " + path);
inline tl::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

// Puts `context` before an error's message: "facts.jsonl: line 3: …".
inline tl::unexpected<Error> Wrap(Error error, std::string_view context) {
  error.message = std::string(context) + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace inferscale

#define INFERSCALE_CONCAT_INNER(a, b) a##b
#define INFERSCALE_CONCAT(a, b) INFERSCALE_CONCAT_INNER(a, b)

// TRY(DoThing()): returns the error to the caller, if there is one.
#define TRY(expression)                                                            \
  do {                                                                             \
    if (auto try_result = (expression); !try_result)                               \
      return ::tl::unexpected<::inferscale::Error>(std::move(try_result).error()); \
  } while (0)

// TRY_ASSIGN(auto value, Compute()): the value, or returns the error.
#define TRY_ASSIGN(declaration, expression) \
  TRY_ASSIGN_AS(INFERSCALE_CONCAT(try_result_, __LINE__), declaration, expression)
#define TRY_ASSIGN_AS(name, declaration, expression)                                \
  auto name = (expression);                                                         \
  if (!name) return ::tl::unexpected<::inferscale::Error>(std::move(name).error()); \
  declaration = std::move(*name)
