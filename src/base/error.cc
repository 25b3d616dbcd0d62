#include "base/error.h"

namespace inferscale {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kInvalidUtf8: return "invalid_utf8";
    case ErrorCode::kInvalidJson: return "invalid_json";
    case ErrorCode::kInvalidDate: return "invalid_date";
    case ErrorCode::kTooLarge: return "too_large";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kPromptTooLong: return "prompt_too_long";
    case ErrorCode::kConflict: return "conflict";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kNoSpace: return "no_space";
    case ErrorCode::kPermission: return "permission";
    case ErrorCode::kInUse: return "in_use";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kVersionUnsupported: return "version_unsupported";
    case ErrorCode::kMismatch: return "mismatch";
    case ErrorCode::kModelLoad: return "model_load";
    case ErrorCode::kModelUnsupported: return "model_unsupported";
    case ErrorCode::kEngine: return "engine";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

}  // namespace inferscale
