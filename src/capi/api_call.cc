#include "capi/api_call.h"

#include <algorithm>

namespace inferscale::capi {
namespace {

// Of this thread. Fixed, so that the lack of memory can be reported; the longest message that we make has about 200.
constexpr size_t kMessageBytes = 1024;
thread_local char last_error[kMessageBytes] = "";

inferscale_status Number(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return INFERSCALE_INVALID_ARGUMENT;
    case ErrorCode::kTooLarge:
      return INFERSCALE_TOO_LARGE;
    case ErrorCode::kNotFound:
      return INFERSCALE_NOT_FOUND;
    case ErrorCode::kNoSpace:
      return INFERSCALE_NO_SPACE;
    case ErrorCode::kInUse:
      return INFERSCALE_BUSY;
    case ErrorCode::kVersionUnsupported:
      return INFERSCALE_UNSUPPORTED;
    case ErrorCode::kEngine:
      return INFERSCALE_DEVICE_FAILED;
    default:
      return INFERSCALE_INTERNAL;  // what none of the functions below has a reason for
  }
}

const char* Name(inferscale_status status) {
  switch (status) {
    case INFERSCALE_OK:
      return "ok";
    case INFERSCALE_PENDING:
      return "pending";
    case INFERSCALE_INVALID_ARGUMENT:
      return "invalid_argument";
    case INFERSCALE_TOO_LARGE:
      return "too_large";
    case INFERSCALE_NOT_FOUND:
      return "not_found";
    case INFERSCALE_NO_SPACE:
      return "no_space";
    case INFERSCALE_BUSY:
      return "busy";
    case INFERSCALE_UNSUPPORTED:
      return "unsupported";
    case INFERSCALE_DEVICE_FAILED:
      return "device_failed";
    case INFERSCALE_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

}  // namespace

inferscale_status SetError(ErrorCode code, std::string_view message) noexcept {
  const size_t length = std::min(message.size(), kMessageBytes - 1);
  std::copy_n(message.begin(), length, last_error);
  last_error[length] = '\0';
  return Number(code);
}

}  // namespace inferscale::capi

uint32_t inferscale_abi_version() { return uint32_t{INFERSCALE_ABI_MAJOR} << 16 | INFERSCALE_ABI_MINOR; }

const char* inferscale_version() { return INFERSCALE_VERSION; }

const char* inferscale_status_name(inferscale_status status) { return inferscale::capi::Name(status); }

const char* inferscale_last_error() { return inferscale::capi::last_error; }
