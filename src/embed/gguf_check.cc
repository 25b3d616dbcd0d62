#include "embed/gguf_check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/file.h"
#include "base/limits.h"
#include "embed/llama_log.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDownloadAgain = ": download or convert it again";

struct Preamble {  // of every GGUF file, little-endian
  std::array<char, 4> magic;
  uint32_t version;
  uint64_t tensors;
  uint64_t keys;
};
static_assert(sizeof(Preamble) == 24);

Result<uint64_t> FileSize(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return Fail(ErrorCode::kNotFound, "there is no file " + path.string());
  if (error) return tl::unexpected<Error>(ErrnoError(error.value(), "look at", path));
  if (status.type() != fs::file_type::regular)
    return Fail(ErrorCode::kInvalidArgument, path.string() + " is not a file: give the path of a .gguf file");
  const uint64_t size = fs::file_size(path, error);
  if (error) return tl::unexpected<Error>(ErrnoError(error.value(), "look at", path));
  return size;
}

// Before gguf.cpp reads it: clear words for the usual accidents (an HTML page, a cut download, another format), and
// counts that could make it allocate without end.
Status CheckPreamble(const fs::path& path, uint64_t file_size) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return tl::unexpected<Error>(ErrnoError(errno, "open", path));
  Preamble preamble{};
  in.read(reinterpret_cast<char*>(&preamble), sizeof preamble);
  if (in.gcount() < 4 || std::string_view(preamble.magic.data(), 4) != "GGUF")
    return Fail(ErrorCode::kCorrupt, path.string() + " is not a GGUF file (it does not begin with \"GGUF\")");
  if (static_cast<size_t>(in.gcount()) < sizeof preamble)
    return Fail(ErrorCode::kCorrupt,
                path.string() + " is cut short after " + std::to_string(file_size) + " bytes" + kDownloadAgain);
  if (preamble.version < 2 || preamble.version > GGUF_VERSION)
    return Fail(ErrorCode::kVersionUnsupported, path.string() + " has GGUF version " +
                                                    std::to_string(preamble.version) +
                                                    "; 2 and 3 can be read: convert it again");
  if (preamble.tensors > limits::kGgufTensors || preamble.keys > limits::kGgufKeys)
    return Fail(ErrorCode::kTooLarge, path.string() + " claims " + std::to_string(preamble.tensors) + " tensors and " +
                                          std::to_string(preamble.keys) + " keys, more than the limits of " +
                                          std::to_string(limits::kGgufTensors) + " and " +
                                          std::to_string(limits::kGgufKeys));
  return {};
}

Status CheckTensors(const fs::path& path, const gguf_context& gguf, uint64_t file_size) {
  const uint64_t data = gguf_get_data_offset(&gguf);
  for (int64_t i = 0; i < gguf_get_n_tensors(&gguf); ++i) {
    const uint64_t offset = gguf_get_tensor_offset(&gguf, i), size = gguf_get_tensor_size(&gguf, i);
    if (data <= file_size && offset <= file_size - data && size <= file_size - data - offset) continue;
    return Fail(ErrorCode::kCorrupt, path.string() + " is cut short: tensor " + gguf_get_tensor_name(&gguf, i) +
                                         " lies beyond its end at " + std::to_string(file_size) + " bytes" +
                                         kDownloadAgain);
  }
  return {};
}

// llama.cpp's loader aborts on a byte token in a WordPiece vocabulary, which has no such thing.
bool HasByteTokensInWordPiece(const gguf_context& gguf) {
  constexpr int32_t kByte = 6;  // LLAMA_TOKEN_TYPE_BYTE
  const int64_t model = gguf_find_key(&gguf, "tokenizer.ggml.model");
  if (model < 0 || gguf_get_kv_type(&gguf, model) != GGUF_TYPE_STRING) return false;
  if (std::string_view(gguf_get_val_str(&gguf, model)) != "bert") return false;
  const int64_t key = gguf_find_key(&gguf, "tokenizer.ggml.token_type");
  if (key < 0 || gguf_get_kv_type(&gguf, key) != GGUF_TYPE_ARRAY) return false;
  if (gguf_get_arr_type(&gguf, key) != GGUF_TYPE_INT32) return false;
  const auto* types = static_cast<const int32_t*>(gguf_get_arr_data(&gguf, key));
  return std::find(types, types + gguf_get_arr_n(&gguf, key), kByte) != types + gguf_get_arr_n(&gguf, key);
}

// Nor does it take a token that is there twice.
Status CheckVocabulary(const fs::path& path, const gguf_context& gguf) {
  const int64_t key = gguf_find_key(&gguf, "tokenizer.ggml.tokens");
  if (key < 0) return {};
  if (gguf_get_kv_type(&gguf, key) != GGUF_TYPE_ARRAY || gguf_get_arr_type(&gguf, key) != GGUF_TYPE_STRING)
    return Fail(ErrorCode::kCorrupt,
                path.string() + ": tokenizer.ggml.tokens is not a list of strings" + kDownloadAgain);
  const size_t count = gguf_get_arr_n(&gguf, key);
  if (count > limits::kVocabularyTokens)
    return Fail(ErrorCode::kTooLarge, path.string() + " has a vocabulary of " + std::to_string(count) +
                                          " tokens, more than the limit of " +
                                          std::to_string(limits::kVocabularyTokens));
  std::unordered_set<std::string_view> seen;
  seen.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view token = gguf_get_arr_str(&gguf, key, i);
    if (!token.empty() && !seen.insert(token).second)  // empty ones are given names of their own
      return Fail(ErrorCode::kCorrupt,
                  path.string() + " has the token \"" + std::string(token) + "\" twice" + kDownloadAgain);
  }
  if (HasByteTokensInWordPiece(gguf))
    return Fail(ErrorCode::kCorrupt, path.string() + " has byte tokens in a WordPiece vocabulary" + kDownloadAgain);
  return {};
}

Status CheckNotSplit(const fs::path& path, const gguf_context& gguf) {
  const int64_t key = gguf_find_key(&gguf, "split.count");
  if (key < 0) return {};
  if (gguf_get_kv_type(&gguf, key) == GGUF_TYPE_UINT16 && gguf_get_val_u16(&gguf, key) <= 1) return {};
  return Fail(ErrorCode::kModelUnsupported,
              path.string() + " is one of several files of a model: join them with `llama-gguf-split --merge` first");
}

}  // namespace

Result<GgufPtr> OpenGgufFile(const fs::path& path) {
  InitLlamaLog();
  TRY_ASSIGN(const uint64_t file_size, FileSize(path));
  TRY(CheckPreamble(path, file_size));
  (void)TakeLlamaError();
  GgufPtr gguf;
  try {
    gguf.reset(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kCorrupt, path.string() + " cannot be read as GGUF: " + e.what());
  }
  if (!gguf) {
    const std::string reason = TakeLlamaError();
    return Fail(ErrorCode::kCorrupt,
                path.string() + " is damaged" + (reason.empty() ? "" : " (" + reason + ")") + kDownloadAgain);
  }
  TRY(CheckTensors(path, *gguf, file_size));
  TRY(CheckVocabulary(path, *gguf));
  TRY(CheckNotSplit(path, *gguf));
  return gguf;
}

std::string GgufString(const gguf_context& gguf, const char* key) {
  const int64_t id = gguf_find_key(&gguf, key);
  return id >= 0 && gguf_get_kv_type(&gguf, id) == GGUF_TYPE_STRING ? gguf_get_val_str(&gguf, id) : "";
}

Result<Hash128> GgufFingerprint(const fs::path& path, const gguf_context& gguf) {
  // Three samples of a page from every tensor: another training step, quantisation or fine-tune changes nearly every
  // block of a tensor that it changes at all.
  constexpr uint64_t kSampleBytes = 4096;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return tl::unexpected<Error>(ErrnoError(errno, "open", path));
  Hasher hasher;
  std::vector<char> buffer(1 << 20);
  const auto hash_range = [&](uint64_t offset, uint64_t size) {
    in.seekg(static_cast<std::streamoff>(offset));
    while (in && size > 0) {
      const auto step = static_cast<std::streamsize>(std::min<uint64_t>(size, buffer.size()));
      in.read(buffer.data(), step);
      hasher.Raw(buffer.data(), static_cast<size_t>(in.gcount()));
      size -= static_cast<uint64_t>(step);
    }
  };
  const uint64_t data = gguf_get_data_offset(&gguf);
  hash_range(0, data);
  for (int64_t i = 0; i < gguf_get_n_tensors(&gguf); ++i) {
    const uint64_t begin = data + gguf_get_tensor_offset(&gguf, i), size = gguf_get_tensor_size(&gguf, i);
    const uint64_t sample = std::min(size, kSampleBytes);
    for (const uint64_t at : {uint64_t{0}, (size - sample) / 2, size - sample}) hash_range(begin + at, sample);
  }
  if (!in) return Fail(ErrorCode::kCorrupt, path.string() + " became shorter while it was read" + kDownloadAgain);
  return hasher.Finish();
}

}  // namespace inferscale
