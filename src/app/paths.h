// Where the command finds models and keeps what it derives.
#pragma once

#include <filesystem>
#include <string>

namespace inferscale {

struct DefaultPath {
  std::filesystem::path path;  // empty when none of the variables that it could come from is set
  std::string shown;           // for help: the variable or ~ in place of this machine's folders
};

// $INFERSCALE_CACHE, else $XDG_CACHE_HOME/inferscale, else ~/.cache/inferscale.
DefaultPath CacheRoot();
// $INFERSCALE_MODEL_DIR, else CacheRoot()/models: where `make setup` puts the default models.
DefaultPath ModelFolder();
DefaultPath DefaultModel();       // SmolLM2-135M-Instruct
DefaultPath DefaultEmbedModel();  // all-MiniLM-L6-v2
DefaultPath DefaultKvFolder();    // CacheRoot()/kv
// $INFERSCALE_DATA, else $XDG_DATA_HOME/inferscale, else ~/.local/share/inferscale: what must not be lost.
DefaultPath DefaultDataFolder();

}  // namespace inferscale
