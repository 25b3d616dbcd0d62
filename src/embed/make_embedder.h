// Any embedder by one name, as `--embed-model` takes it.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "embed/embedder.h"

namespace inferscale {

struct EmbedderSpec {
  // A GGUF file, or the base URL of an OpenAI-compatible API with the model behind '#':
  //   http://127.0.0.1:8081/v1#nomic-embed-text-v1.5
  // "/embeddings" is appended to the URL's path. Without '#' no model is named in requests.
  std::string model;
  int threads = 0;                                        // of a GGUF file's engine; 0: all cores
  std::string key_variable = "INFERSCALE_EMBED_API_KEY";  // environment variable with an endpoint's key; unset: no key
};

// Whether MakeEmbedder would take it for a URL.
bool IsEmbedderUrl(const std::string& model);

// LlamaEmbedder of a file, EndpointEmbedder of a URL: an endpoint is asked for one vector, to know its dimension.
// Errors: theirs.
Result<std::unique_ptr<Embedder>> MakeEmbedder(const EmbedderSpec& spec);

}  // namespace inferscale
