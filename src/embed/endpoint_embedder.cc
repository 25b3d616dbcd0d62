#include "embed/endpoint_embedder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "embed/endpoint_answer.h"

namespace inferscale {

namespace {

constexpr uint32_t kKeyVersion = 1;  // raise when what is sent of a text changes: other vectors come back

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Calls at(bytes) with the length of what each estimated token would end behind, until it returns false. Letters: a
// token for each four; a digit, a sign, a character beyond ASCII: one each.
template <class At>
void ForEachToken(std::string_view text, const At& at) {
  size_t letters = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    i += CodePointBytes(text, i);
    if (IsLetter(c)) {
      if (letters++ % 4 != 0) continue;
    } else {
      letters = 0;
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    }
    if (!at(i)) return;
  }
}

std::string Cut(std::string_view text, size_t tokens) {
  size_t count = 0, end = text.size();
  ForEachToken(text, [&](size_t bytes) {
    if (++count <= tokens) return true;
    end = FloorToCodePoint(text, bytes - 1);
    return false;
  });
  return std::string(text.substr(0, end));
}

bool IsWorthAnotherTry(unsigned status) { return status == 429 || (status >= 502 && status <= 504); }

}  // namespace

Result<std::unique_ptr<EndpointEmbedder>> EndpointEmbedder::Connect(std::string_view text,
                                                                    const EndpointOptions& options) {
  TRY_ASSIGN(HttpUrl url, ParseHttpUrl(text));
  std::unique_ptr<EndpointEmbedder> made(new EndpointEmbedder());
  made->model_ = url.fragment;
  if (!IsValidUtf8(made->model_)) return Fail(ErrorCode::kInvalidUtf8, "the model's name behind '#' is not UTF-8");
  made->address_ = url.Shown();
  made->name_ = made->address_ + (made->model_.empty() ? "" : "#" + made->model_);
  made->retry_wait_ = options.retry_wait;
  made->timeout_ = options.timeout;
  HttpOptions http;
  http.timeout = options.timeout;
  http.max_body_bytes = limits::kEndpointAnswerBytes;
  if (!options.api_key.empty()) http.authorization = "Bearer " + options.api_key;
  TRY_ASSIGN(made->client_, HttpClient::Make(std::move(url), std::move(http)));

  const std::string_view probe = "dimension";
  TRY_ASSIGN(const std::vector<float> vector, made->Embed({&probe, 1}));
  made->dim_ = static_cast<uint32_t>(vector.size());
  made->key_ = Hasher()
                   .Str("endpoint")
                   .U32(kKeyVersion)
                   .Str(made->model_.empty() ? made->address_ : "#" + made->model_)
                   .U32(made->dim_)
                   .U32(limits::kEmbedTokens)
                   .Finish();
  return made;
}

size_t EndpointEmbedder::CountTokens(std::string_view text) const {
  size_t count = 2;  // what a model puts around it
  ForEachToken(text, [&count](size_t) { return ++count > 0; });
  return count;
}

Result<std::vector<float>> EndpointEmbedder::Embed(std::span<const std::string_view> texts) {
  TRY(CheckEmbedTexts(texts));
  std::vector<float> vectors;
  for (size_t begin = 0; begin < texts.size(); begin += limits::kEndpointTexts) {
    std::vector<std::string> batch;
    for (const std::string_view text : texts.subspan(begin, std::min(limits::kEndpointTexts, texts.size() - begin))) {
      batch.push_back(Cut(text, limits::kEmbedTokens - 2));
      if (batch.back().empty()) batch.back() = " ";  // refused by many, and it must have a vector
    }
    Result<std::vector<float>> part = Request(batch);
    if (!part) return Wrap(std::move(part).error(), "embedding endpoint " + name_);
    vectors.insert(vectors.end(), part->begin(), part->end());
  }
  return vectors;
}

Result<std::vector<float>> EndpointEmbedder::Request(std::span<const std::string> texts) {
  nlohmann::json body = {{"input", texts}, {"encoding_format", "float"}};
  if (!model_.empty()) body["model"] = model_;
  TRY_ASSIGN(const HttpAnswer answer, Post(body.dump()));
  if (answer.status == 200) return ParseEmbeddings(answer.body, texts.size(), dim_);
  std::string message = "status " + std::to_string(answer.status);
  if (answer.status == 401 || answer.status == 403)
    message += ": the key is missing or not accepted";
  else if (answer.status == 404)
    message += ": there is no such model, or no API at this URL";
  if (const std::string said = ParseEndpointError(answer.body, texts); !said.empty()) message += " (\"" + said + "\")";
  return Fail(ErrorCode::kEngine, message);
}

Result<HttpAnswer> EndpointEmbedder::Post(const std::string& body) {
  const Stopwatch watch;
  std::chrono::milliseconds wait = retry_wait_;
  for (int attempt = 1;; ++attempt, wait *= 2) {
    Result<HttpAnswer> answer = client_->PostJson("/embeddings", body);
    const bool is_final = answer && !IsWorthAnotherTry(answer->status);
    const double after_wait = watch.Millis() + static_cast<double>(wait.count());
    if (is_final || attempt == limits::kEndpointAttempts || after_wait > static_cast<double>(timeout_.count()))
      return answer;
    std::this_thread::sleep_for(wait);
  }
}

}  // namespace inferscale
