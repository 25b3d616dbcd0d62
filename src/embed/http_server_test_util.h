// A real HTTP server on 127.0.0.1 whose answers a test writes byte by byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace inferscale::testing {

struct SeenRequest {
  std::string method, target, body;
  std::map<std::string, std::string> headers;  // names in lower case
  int connection = 0;                          // which one it came on, from 0
};

// What the server does after a request.
struct Reply {
  std::string bytes;             // sent as they are
  bool keep_open = false;        // waits for the next request afterwards
  bool wait_for_client = false;  // keeps the connection, silent, until the client closes it
};

// "HTTP/1.1 200 OK" with its headers around a body.
Reply Ok(const std::string& body, bool keep_open = true);
Reply Status(int status, const std::string& body);

// Writes a new key and its certificate for "localhost", signed by itself, as one PEM file.
void WriteCertificate(const std::string& path);

class HttpServer {
 public:
  // certificate: a PEM file with certificate and key: HTTPS. Empty: HTTP.
  explicit HttpServer(std::function<Reply(const SeenRequest&)> answer, const std::string& certificate = "");
  ~HttpServer();

  uint16_t port() const { return port_; }
  std::string Url() const;  // "http://127.0.0.1:PORT", or "https://localhost:PORT"
  std::vector<SeenRequest> requests() const;

 private:
  struct Impl;
  void Serve();

  const std::function<Reply(const SeenRequest&)> answer_;
  std::unique_ptr<Impl> impl_;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<SeenRequest> requests_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace inferscale::testing
