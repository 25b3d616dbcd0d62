#include <charconv>

#include "embed/http_client.h"

namespace inferscale {

namespace {

constexpr size_t kUrlBytes = 2048;

tl::unexpected<Error> Bad(const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument,
              "the endpoint's URL " + why + ": write it like http://127.0.0.1:8080/v1#model");
}

// "host", "host:port", "[::1]:port".
Status ReadAuthority(std::string_view authority, HttpUrl& url) {
  std::string_view port;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return Bad("has a '[' without a ']'");
    url.host = authority.substr(1, end - 1);
    authority.remove_prefix(end + 1);
    if (!authority.empty() && authority[0] != ':') return Bad("has something between host and port");
    if (!authority.empty()) port = authority.substr(1);
    if (authority == ":") return Bad("has an empty port");
  } else {
    const size_t colon = authority.find(':');
    url.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = authority.substr(colon + 1);
      if (port.empty()) return Bad("has an empty port");
    }
  }
  if (url.host.empty()) return Bad("names no host");
  url.port = url.tls ? 443 : 80;
  if (port.empty()) return {};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
    return Bad("has a port that is not within 1 and 65535");
  return {};
}

}  // namespace

std::string HttpUrl::Authority() const {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? shown : shown + ":" + std::to_string(port);
}

std::string HttpUrl::Shown() const { return (tls ? "https://" : "http://") + Authority() + path; }

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  if (text.size() > kUrlBytes) return Bad("is longer than " + std::to_string(kUrlBytes) + " bytes");
  HttpUrl url;
  if (const size_t hash = text.find('#'); hash != std::string_view::npos) {
    url.fragment = text.substr(hash + 1);
    text = text.substr(0, hash);
  }
  for (const char c : text)
    if (c <= ' ' || c == 0x7F) return Bad("has a space or a control character, or one outside ASCII, before its '#'");
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) return Bad("does not begin with http:// or https://");
  text.remove_prefix(url.tls ? 8 : 7);
  const size_t slash = text.find('/');
  const std::string_view authority = text.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) return Bad("has a user name in it, which would be logged");
  if (text.find('?') != std::string_view::npos) return Bad("has a query");
  if (slash != std::string_view::npos) url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  TRY(ReadAuthority(authority, url));
  return url;
}

}  // namespace inferscale
