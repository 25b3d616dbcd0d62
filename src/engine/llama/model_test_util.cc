#include "engine/llama/model_test_util.h"

#include <cstdlib>

namespace inferscale::testing {

std::filesystem::path ModelForTest(const std::string& file, bool optional) {
  const char* folder = std::getenv("INFERSCALE_MODEL_DIR");
  if (folder == nullptr || *folder == '\0') return {};
  const char* all = std::getenv("INFERSCALE_ALL_MODELS");
  if (optional && (all == nullptr || std::string(all) != "1")) return {};
  return std::filesystem::path(folder) / file;
}

}  // namespace inferscale::testing
