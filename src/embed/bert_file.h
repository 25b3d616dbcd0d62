// A GGUF file of a BERT sentence embedder: checked, so that llama.cpp loads and runs it without an abort, with the
// vocabulary for our own tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace inferscale {

struct BertFile {
  std::string name;                 // general.name, or the file's
  uint32_t dim = 0;                 // of a vector
  std::vector<std::string> pieces;  // [id]: the original WordPiece vocabulary, "##" before what continues a word
  Hash128 fingerprint;              // of header and sampled weights
};

// CheckGgufFile's errors; kModelUnsupported: not a BERT embedder, or a variant we do not know (the message names it).
Result<BertFile> ReadBertFile(const std::filesystem::path& path);

}  // namespace inferscale
