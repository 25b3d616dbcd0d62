#include "embed/endpoint_answer.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

namespace {

using nlohmann::json;

tl::unexpected<Error> Bad(const std::string& what) { return Fail(ErrorCode::kEngine, "its answer " + what); }

// [dim], to unit length.
Status ReadVector(const json& embedding, float* out) {
  double squared = 0.0;
  size_t i = 0;
  for (const json& element : embedding) {
    if (!element.is_number()) return Bad("has an element that is no number in a vector");
    const double value = element.get<double>();
    if (!(std::abs(value) <= std::numeric_limits<float>::max()))
      return Bad("has a number that is too large in a vector");
    squared += value * value;
    out[i++] = static_cast<float>(value);
  }
  const double length = std::sqrt(squared);
  if (!(length > 0) || !std::isfinite(length)) return Bad("has a vector of zeros, or one that is too long");
  for (size_t d = 0; d < i; ++d) out[d] = static_cast<float>(out[d] / length);
  return {};
}

// The place that an element says it is for; without "index", its own.
Result<size_t> PlaceOf(const json& element, size_t at, size_t texts) {
  const auto index = element.find("index");
  if (index == element.end()) return at;
  if (!index->is_number_unsigned() || index->get<uint64_t>() >= texts)
    return Bad("has an \"index\" that is not that of a text");
  return static_cast<size_t>(index->get<uint64_t>());
}

}  // namespace

Result<std::vector<float>> ParseEmbeddings(std::string_view body, size_t texts, uint32_t dim) {
  const json answer = json::parse(body, nullptr, false);
  if (answer.is_discarded()) return Bad("is not JSON");
  const auto data = answer.is_object() ? answer.find("data") : answer.end();
  if (!answer.is_object() || data == answer.end() || !data->is_array())
    return Bad("has no list \"data\": is this an OpenAI-compatible API?");
  if (data->size() != texts)
    return Bad("has " + std::to_string(data->size()) + " vectors for " + std::to_string(texts) + " texts");
  std::vector<float> vectors;
  std::vector<bool> seen(texts, false);
  for (size_t i = 0; i < texts; ++i) {
    const json& element = (*data)[i];
    const auto embedding = element.is_object() ? element.find("embedding") : element.end();
    if (!element.is_object() || embedding == element.end() || !embedding->is_array())
      return Bad("has no list \"embedding\" for a text");
    if (dim == 0) {
      if (embedding->empty() || embedding->size() > static_cast<size_t>(limits::kEmbedDimMax))
        return Bad("has a vector of " + std::to_string(embedding->size()) + " elements, not 1 to " +
                   std::to_string(limits::kEmbedDimMax));
      dim = static_cast<uint32_t>(embedding->size());
    }
    if (embedding->size() != dim)
      return Bad("has a vector of " + std::to_string(embedding->size()) + " elements instead of " +
                 std::to_string(dim));
    vectors.resize(texts * dim);
    TRY_ASSIGN(const size_t place, PlaceOf(element, i, texts));
    if (seen[place]) return Bad("has two vectors for one text");
    seen[place] = true;
    TRY(ReadVector(*embedding, vectors.data() + place * dim));
  }
  return vectors;
}

std::string ParseEndpointError(std::string_view body, std::span<const std::string> texts) {
  constexpr size_t kShownBytes = 200;
  constexpr size_t kRepeatedBytes = 12;  // that many from a text's beginning are not there by accident
  const json answer = json::parse(body, nullptr, false);
  const auto text_of = [](const json& object, const char* key) -> std::string {
    const auto found = object.is_object() ? object.find(key) : object.end();
    return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  // {"error": {"message": …}}, {"error": …}, {"message": …} or {"detail": …}
  std::string message = answer.is_object() && answer.contains("error") ? text_of(answer["error"], "message") : "";
  for (const char* key : {"error", "message", "detail"})
    if (message.empty()) message = text_of(answer, key);
  for (const std::string& text : texts)
    if (!text.empty() && message.find(text.substr(0, kRepeatedBytes)) != std::string::npos) return "";
  if (message.size() > kShownBytes) message = message.substr(0, FloorToCodePoint(message, kShownBytes)) + "…";
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) c = ' ';
  return message;
}

}  // namespace inferscale
