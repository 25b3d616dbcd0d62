// A GGUF model, checked and loaded, with its identity.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"
#include "core/types.h"
#include "engine/llama/llama_handles.h"

namespace inferscale {

struct LlamaModelFile {
  LlamaModelPtr model;
  std::string path;
  std::string name;           // the file's without its ending: general.name is often unreadable
  std::string architecture;   // general.architecture
  std::string chat_template;  // tokenizer.chat_template, or ""
  Hash128 fingerprint;        // of header and sampled weights
};

// Checks the file before llama.cpp sees it (it aborts on some broken ones), loads it, and refuses what cannot answer
// questions: encoders, models without a tokenizer. kNotFound, kCorrupt, kModelLoad, kModelUnsupported.
Result<LlamaModelFile> LoadModelFile(const std::filesystem::path& path);

// Architectures whose graph we have read and tested: others run in text mode.
bool IsInjectableArchitecture(std::string_view architecture);

}  // namespace inferscale
