#include "app/paths.h"

#include <cstdlib>

namespace inferscale {

namespace fs = std::filesystem;

namespace {
const char* Env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}
}  // namespace

fs::path CacheRoot() {
  if (const char* root = Env("INFERSCALE_CACHE")) return root;
  if (const char* xdg = Env("XDG_CACHE_HOME")) return fs::path(xdg) / "inferscale";
  const char* home = Env("HOME");
  return fs::path(home != nullptr ? home : "/root") / ".cache" / "inferscale";
}

fs::path ModelFolder() {
  if (const char* folder = Env("INFERSCALE_MODEL_DIR")) return folder;
  return CacheRoot() / "models";
}

fs::path DefaultModel() { return ModelFolder() / "SmolLM2-135M-Instruct.Q4_1.gguf"; }
fs::path DefaultEmbedModel() { return ModelFolder() / "all-MiniLM-L6-v2.f16.gguf"; }
fs::path DefaultKvFolder() { return CacheRoot() / "kv"; }

}  // namespace inferscale
