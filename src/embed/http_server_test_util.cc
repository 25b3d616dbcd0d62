#include "embed/http_server_test_util.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdio>

namespace inferscale::testing {

namespace net = boost::asio;
namespace http = boost::beast::http;
using net::ip::tcp;

struct HttpServer::Impl {
  net::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(net::ip::make_address("127.0.0.1"), 0)};
  std::unique_ptr<net::ssl::context> tls;
  int connections = 0;

  // Requests of one connection, until one of the sides closes it.
  template <class Stream>
  void Talk(Stream& stream, HttpServer& server) {
    boost::system::error_code error;
    boost::beast::flat_buffer buffer;
    for (bool open = true; open;) {
      http::request<http::string_body> request;
      http::read(stream, buffer, request, error);
      if (error) return;
      SeenRequest seen{
          std::string(request.method_string()), std::string(request.target()), request.body(), {}, connections - 1};
      for (const auto& field : request) {
        std::string name(field.name_string());
        std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
        seen.headers[name] = std::string(field.value());
      }
      {
        const std::lock_guard<std::mutex> lock(server.mutex_);
        server.requests_.push_back(seen);
      }
      const Reply reply = server.answer_(seen);
      net::write(stream, net::buffer(reply.bytes), error);
      if (reply.wait_for_client) {
        char byte = 0;
        stream.read_some(net::buffer(&byte, 1), error);
      }
      open = reply.keep_open && !error;
    }
  }
};

Reply Ok(const std::string& body, bool keep_open) {
  return {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body,
          keep_open};
}

Reply Status(int status, const std::string& body) {
  return {"HTTP/1.1 " + std::to_string(status) + " Reason\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n" + body,
          true};
}

void WriteCertificate(const std::string& path) {
  constexpr long kDay = 24 * 3600;
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509* x509 = certificate.get();
  X509_set_version(x509, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(x509), kDay);
  X509_set_pubkey(x509, key.get());
  X509_NAME* name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_EXTENSION* hosts = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(x509, hosts, -1);
  X509_EXTENSION_free(hosts);
  ASSERT_GT(X509_sign(x509, key.get(), EVP_sha256()), 0);
  const std::unique_ptr<FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "w"), std::fclose);
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(PEM_write_X509(file.get(), x509), 1);
  ASSERT_EQ(PEM_write_PrivateKey(file.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
}

HttpServer::HttpServer(std::function<Reply(const SeenRequest&)> answer, const std::string& certificate)
    : answer_(std::move(answer)), impl_(std::make_unique<Impl>()) {
  port_ = impl_->acceptor.local_endpoint().port();
  if (!certificate.empty()) {
    impl_->tls = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
    impl_->tls->use_certificate_chain_file(certificate);
    impl_->tls->use_private_key_file(certificate, net::ssl::context::pem);
  }
  thread_ = std::thread([this] { Serve(); });
}

HttpServer::~HttpServer() {
  ::shutdown(impl_->acceptor.native_handle(), SHUT_RDWR);  // a waiting accept returns
  thread_.join();
}

std::string HttpServer::Url() const {
  return (impl_->tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port_);
}

std::vector<SeenRequest> HttpServer::requests() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return requests_;
}

void HttpServer::Serve() {
  for (;;) {
    boost::system::error_code error;
    tcp::socket socket(impl_->io);
    impl_->acceptor.accept(socket, error);
    if (error) return;
    ++impl_->connections;
    if (impl_->tls) {
      net::ssl::stream<tcp::socket> stream(std::move(socket), *impl_->tls);
      stream.handshake(net::ssl::stream_base::server, error);
      if (!error) impl_->Talk(stream, *this);
    } else {
      impl_->Talk(socket, *this);
    }
  }
}

}  // namespace inferscale::testing
