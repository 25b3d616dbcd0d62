#include "embed/http_client.h"

#include <openssl/ssl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <exception>
#include <utility>

namespace inferscale {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using net::ip::tcp;

namespace {

constexpr uint32_t kHeaderBytes = 16 * 1024;

bool IsHeaderValue(std::string_view value) {
  for (const char c : value)
    if (c < ' ' || c == 0x7F) return false;  // a line end would begin another header
  return true;
}

}  // namespace

// One connection, its TLS layer used or not.
struct HttpClient::Impl {
  Impl(HttpUrl url, HttpOptions options) : url(std::move(url)), options(std::move(options)) {}

  const HttpUrl url;
  const HttpOptions options;
  net::io_context io{1};
  net::ssl::context tls{net::ssl::context::tls_client};
  std::unique_ptr<beast::ssl_stream<beast::tcp_stream>> stream;  // null: not connected
  std::string stage;                                             // what is being done, for messages

  net::awaitable<void> Connect(std::chrono::steady_clock::time_point deadline) {
    stage = "find the address of " + url.host;
    tcp::resolver resolver(io);
    const auto addresses = co_await resolver.async_resolve(url.host, std::to_string(url.port), net::use_awaitable);
    stage = "connect to " + url.Shown();
    stream = std::make_unique<beast::ssl_stream<beast::tcp_stream>>(io, tls);
    stream->next_layer().expires_at(deadline);
    co_await stream->next_layer().async_connect(addresses, net::use_awaitable);
    stream->next_layer().socket().set_option(tcp::no_delay(true));
    if (!url.tls) co_return;
    stage = "agree on encryption with " + url.Shown();
    boost::system::error_code not_an_address;
    net::ip::make_address(url.host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream->native_handle(), url.host.c_str());
    stream->set_verify_mode(net::ssl::verify_peer);
    stream->set_verify_callback(net::ssl::host_name_verification(url.host));
    co_await stream->async_handshake(net::ssl::stream_base::client, net::use_awaitable);
  }

  template <class Stream>
  net::awaitable<void> Exchange(Stream& on, const http::request<http::string_body>& request, HttpAnswer& answer) {
    stage = "send to " + url.Shown();
    co_await http::async_write(on, request, net::use_awaitable);
    stage = "get an answer from " + url.Shown();
    http::response_parser<http::string_body> parser;
    parser.header_limit(kHeaderBytes);
    parser.body_limit(options.max_body_bytes);
    beast::flat_buffer buffer;
    co_await http::async_read(on, buffer, parser, net::use_awaitable);
    answer.status = parser.get().result_int();
    answer.body = std::move(parser.get().body());
    if (!parser.get().keep_alive()) stream.reset();
  }

  net::awaitable<void> Run(const http::request<http::string_body>& request, HttpAnswer& answer) {
    const auto deadline = std::chrono::steady_clock::now() + options.timeout;
    if (stream == nullptr) co_await Connect(deadline);
    stream->next_layer().expires_at(deadline);
    if (url.tls) {
      co_await Exchange(*stream, request, answer);
    } else {
      co_await Exchange(stream->next_layer(), request, answer);
    }
  }

  // One attempt. An error leaves no connection.
  boost::system::error_code Attempt(const http::request<http::string_body>& request, HttpAnswer& answer) {
    boost::system::error_code failure;
    std::exception_ptr thrown;
    net::co_spawn(io, Run(request, answer), [&](std::exception_ptr e) { thrown = std::move(e); });
    io.restart();
    io.run();
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const boost::system::system_error& e) {
      failure = e.code();
    } catch (const std::exception&) {
      failure = net::error::no_memory;  // the only other kind
    }
    if (failure) stream.reset();
    return failure;
  }

  std::string Explain(const boost::system::error_code& failure) const {
    if (failure == beast::error::timeout || failure == net::error::timed_out)
      return "no answer within " + std::to_string(options.timeout.count()) + " ms";
    if (failure == http::error::body_limit)
      return "it is longer than " + std::to_string(options.max_body_bytes) + " bytes";
    if (failure == http::error::end_of_stream || failure == http::error::partial_message ||
        failure == net::error::eof || failure == net::error::connection_reset ||
        failure == net::ssl::error::stream_truncated)
      return "the connection was closed";
    if (failure.category() == net::error::get_ssl_category())
      return failure.message() + " (is its certificate known here?)";
    return failure.message();
  }
};

HttpClient::HttpClient() = default;
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::Make(HttpUrl url, HttpOptions options) {
  if (!IsHeaderValue(options.authorization))
    return Fail(ErrorCode::kInvalidArgument,
                "the key for " + url.Shown() + " has a line end or a control character in it");
  std::unique_ptr<HttpClient> client(new HttpClient());
  try {
    client->impl_ = std::make_unique<Impl>(std::move(url), std::move(options));
    if (client->impl_->url.tls) client->impl_->tls.set_default_verify_paths();
  } catch (const boost::system::system_error& e) {
    return Fail(ErrorCode::kIo, "HTTPS cannot be used: " + e.code().message());
  }
  return client;
}

Result<HttpAnswer> HttpClient::PostJson(std::string_view path_suffix, const std::string& json) {
  const std::lock_guard<std::mutex> lock(mutex_);
  http::request<http::string_body> request(http::verb::post, impl_->url.path + std::string(path_suffix), 11);
  request.set(http::field::host, impl_->url.Authority());
  request.set(http::field::user_agent, "inferscale");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::accept, "application/json");
  if (!impl_->options.authorization.empty()) request.set(http::field::authorization, impl_->options.authorization);
  request.body() = json;
  request.prepare_payload();

  const bool was_kept = impl_->stream != nullptr;
  HttpAnswer answer;
  boost::system::error_code failure = impl_->Attempt(request, answer);
  // A server may close a kept connection at any time, also just when the next request arrives.
  if (failure && was_kept && failure != beast::error::timeout && failure != http::error::body_limit)
    failure = impl_->Attempt(request, answer);
  if (failure) return Fail(ErrorCode::kEngine, "could not " + impl_->stage + ": " + impl_->Explain(failure));
  return answer;
}

}  // namespace inferscale
