#include "engine/llama/model_test_util.h"

#include <llama.h>

#include <cstdlib>

#include "embed/llama_log.h"

namespace inferscale::testing {

std::filesystem::path ModelForTest(const std::string& file, bool optional) {
  const char* folder = std::getenv("INFERSCALE_MODEL_DIR");
  if (folder == nullptr || *folder == '\0') return {};
  const char* all = std::getenv("INFERSCALE_ALL_MODELS");
  if (optional && (all == nullptr || std::string(all) != "1")) return {};
  return std::filesystem::path(folder) / file;
}

bool ExpandToF32(const std::filesystem::path& model, const std::filesystem::path& expanded) {
  InitLlamaLog();
  llama_model_quantize_params params = llama_model_quantize_default_params();
  params.nthread = 2;
  params.ftype = LLAMA_FTYPE_ALL_F32;
  params.allow_requantize = true;
  return llama_model_quantize(model.c_str(), expanded.c_str(), &params) == 0;
}

}  // namespace inferscale::testing
