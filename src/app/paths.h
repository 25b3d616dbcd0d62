// Where the command finds models and keeps what it derives.
#pragma once

#include <filesystem>

namespace inferscale {

// $INFERSCALE_CACHE, else $XDG_CACHE_HOME/inferscale, else ~/.cache/inferscale.
std::filesystem::path CacheRoot();
// $INFERSCALE_MODEL_DIR, else CacheRoot()/models: where `make` puts the default models.
std::filesystem::path ModelFolder();
std::filesystem::path DefaultModel();       // SmolLM2-135M-Instruct
std::filesystem::path DefaultEmbedModel();  // all-MiniLM-L6-v2
std::filesystem::path DefaultKvFolder();    // CacheRoot()/kv

}  // namespace inferscale
