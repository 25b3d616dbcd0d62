// Vectors from an OpenAI-compatible endpoint: POST {url}/embeddings.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "embed/embedder.h"
#include "embed/http_client.h"

namespace inferscale {

struct EndpointOptions {
  std::string api_key;                        // sent as "Authorization: Bearer …", and shown nowhere
  std::chrono::milliseconds timeout{30'000};  // of one request
  std::chrono::milliseconds retry_wait{500};  // before the second attempt; doubled for each more
};

class EndpointEmbedder final : public Embedder {
 public:
  // url: the API's base URL, with the model's name behind '#' (EmbedderSpec::model). Asks for one vector, to know the
  // dimension. kInvalidArgument: the URL or the key; kEngine: Embed's errors.
  static Result<std::unique_ptr<EndpointEmbedder>> Connect(std::string_view url, const EndpointOptions& options);

  uint32_t dim() const override { return dim_; }
  const std::string& name() const override { return name_; }
  // Of the model's name and dimension, not of the address: an endpoint may move. Without a name, of the address.
  Hash128 key() const override { return key_; }

  // An estimate, since the endpoint's tokenizer is not known: seldom too low. For English it is about a third too high.
  size_t CountTokens(std::string_view text) const override;

  // In requests of limits::kEndpointTexts texts. An endpoint that is overloaded (status 429, 502, 503, 504) or closes
  // the connection is asked limits::kEndpointAttempts times. kEngine: it does not answer in time, or something that is
  // not one finite vector of dim() elements for each text; the message says what, never a text. kTooLarge as
  // LlamaEmbedder.
  Result<std::vector<float>> Embed(std::span<const std::string_view> texts) override;

 private:
  EndpointEmbedder() = default;
  Result<std::vector<float>> Request(std::span<const std::string> texts);
  Result<HttpAnswer> Post(const std::string& body);

  // Constant after Connect.
  std::string model_;  // may be empty
  std::string name_;
  std::string address_;
  uint32_t dim_ = 0;  // 0 until the first answer
  Hash128 key_;
  std::chrono::milliseconds retry_wait_{0}, timeout_{0};
  std::unique_ptr<HttpClient> client_;
};

}  // namespace inferscale
