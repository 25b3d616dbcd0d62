#include "app/paths.h"

#include <cstdlib>
#include <optional>

namespace inferscale {

namespace {

// The folder that an environment variable names; an empty value is as none.
std::optional<DefaultPath> FromVariable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return DefaultPath{value, std::string("$") + name};
}

DefaultPath In(DefaultPath folder, const char* name) {
  if (!folder.path.empty()) folder.path /= name;
  folder.shown += std::string("/") + name;
  return folder;
}

DefaultPath HomeFolder() {
  DefaultPath home = FromVariable("HOME").value_or(DefaultPath{});
  home.shown = "~";
  return home;
}

}  // namespace

DefaultPath CacheRoot() {
  if (std::optional<DefaultPath> root = FromVariable("INFERSCALE_CACHE")) return *root;
  if (std::optional<DefaultPath> caches = FromVariable("XDG_CACHE_HOME")) return In(*caches, "inferscale");
  return In(In(HomeFolder(), ".cache"), "inferscale");
}

DefaultPath ModelFolder() {
  if (std::optional<DefaultPath> folder = FromVariable("INFERSCALE_MODEL_DIR")) return *folder;
  return In(CacheRoot(), "models");
}

DefaultPath DefaultModel() { return In(ModelFolder(), "SmolLM2-135M-Instruct.Q4_1.gguf"); }
DefaultPath DefaultEmbedModel() { return In(ModelFolder(), "all-MiniLM-L6-v2.f16.gguf"); }
DefaultPath DefaultKvFolder() { return In(CacheRoot(), "kv"); }

DefaultPath DefaultDataFolder() {
  if (std::optional<DefaultPath> folder = FromVariable("INFERSCALE_DATA")) return *folder;
  if (std::optional<DefaultPath> data = FromVariable("XDG_DATA_HOME")) return In(*data, "inferscale");
  return In(In(In(HomeFolder(), ".local"), "share"), "inferscale");
}

}  // namespace inferscale
