#include "embed/make_embedder.h"

#include <cstdlib>
#include <utility>

#include "embed/endpoint_embedder.h"
#include "embed/llama_embedder.h"

namespace inferscale {

bool IsEmbedderUrl(const std::string& model) { return model.starts_with("http://") || model.starts_with("https://"); }

Result<std::unique_ptr<Embedder>> MakeEmbedder(const EmbedderSpec& spec) {
  if (IsEmbedderUrl(spec.model)) {
    EndpointOptions options;
    if (const char* key = std::getenv(spec.key_variable.c_str()); key != nullptr) options.api_key = key;
    TRY_ASSIGN(std::unique_ptr<Embedder> endpoint, EndpointEmbedder::Connect(spec.model, options));
    return endpoint;
  }
  TRY_ASSIGN(std::unique_ptr<Embedder> local, LlamaEmbedder::Load(spec.model, spec.threads));
  return local;
}

}  // namespace inferscale
