// POST over HTTP and HTTPS with everything bounded, for embedding endpoints. Boost.Beast, because it is headers only
// and so works in the static build too.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/error.h"

namespace inferscale {

struct HttpUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 80;
  std::string path;      // "" or "/…", without a '/' at its end
  std::string fragment;  // behind '#'

  std::string Authority() const;  // host and port as in a URL and a Host header
  std::string Shown() const;      // the URL without its fragment
};

// http://… or https://…, without a query. kInvalidArgument: anything else; also a user name or password in it, which
// would end up in logs.
Result<HttpUrl> ParseHttpUrl(std::string_view url);

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

struct HttpOptions {
  std::chrono::milliseconds timeout{30'000};  // of one request, from connecting to the last byte
  size_t max_body_bytes = 0;                  // of an answer
  std::string authorization;                  // value of that header, or empty; in no message, ever
};

class HttpClient {
 public:
  // kInvalidArgument: an authorization that is no header value. kIo: the system's certificates cannot be read.
  static Result<std::unique_ptr<HttpClient>> Make(HttpUrl url, HttpOptions options);
  ~HttpClient();

  // Sends json to the URL's path + suffix and waits for the whole answer, whatever its status. The connection is kept
  // for the next request; if the server has closed it meanwhile, a new one is made once. Thread-safe (requests take
  // turns). kEngine: no answer, with the reason.
  Result<HttpAnswer> PostJson(std::string_view path_suffix, const std::string& json);

 private:
  struct Impl;
  HttpClient();

  std::mutex mutex_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace inferscale
