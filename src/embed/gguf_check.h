// GGUF files, looked at before llama.cpp does: it aborts on some broken ones, and says little about the others.
#pragma once

#include <gguf.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/hash.h"

namespace inferscale {

struct GgufFree {
  void operator()(gguf_context* p) const { gguf_free(p); }
};
using GgufPtr = std::unique_ptr<gguf_context, GgufFree>;

// A GGUF file's header: keys and tensor list, no weights. Every tensor lies inside the file, counts are within limits,
// the vocabulary (if there is one) is a list of distinct strings. kNotFound, kPermission, kInvalidArgument (a folder),
// kCorrupt, kVersionUnsupported, kTooLarge, kModelUnsupported (one of several files of a split model).
Result<GgufPtr> OpenGgufFile(const std::filesystem::path& path);

inline Status CheckGgufFile(const std::filesystem::path& path) {
  TRY(OpenGgufFile(path));
  return {};
}

// A key's text; "" when there is none, or it is no text (gguf_get_val_str aborts then).
std::string GgufString(const gguf_context& gguf, const char* key);

// Digest of the header and of samples of each tensor's bytes: two different models are told apart at a fraction of the
// reading. gguf: of the same path. kIo, kCorrupt.
Result<Hash128> GgufFingerprint(const std::filesystem::path& path, const gguf_context& gguf);

}  // namespace inferscale
