#include "embed/endpoint_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/clock.h"
#include "base/limits.h"
#include "embed/endpoint_answer.h"
#include "embed/http_server_test_util.h"
#include "embed/make_embedder.h"

namespace inferscale {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::HttpServer;
using ::testing::Not;
using testing::Ok;
using testing::Reply;
using testing::SeenRequest;
using testing::Status;
using namespace std::chrono_literals;

constexpr uint32_t kDim = 8;
const EndpointOptions kFast = {"", 10s, 1ms};

// A vector that depends on the text alone, not of unit length.
std::vector<float> VectorOf(const std::string& text) {
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(text)));
  std::vector<float> vector(kDim);
  for (float& x : vector) x = std::uniform_real_distribution<float>(-3, 3)(random);
  return vector;
}

json AnswerTo(const json& request) {
  json data = json::array();
  for (size_t i = 0; i < request["input"].size(); ++i)
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", VectorOf(request["input"][i])}});
  return {{"object", "list"}, {"data", data}, {"model", "m"}};
}
Reply Right(const SeenRequest& request) { return Ok(AnswerTo(json::parse(request.body)).dump()); }

std::unique_ptr<EndpointEmbedder> Connected(const std::string& url, const EndpointOptions& options = kFast) {
  auto made = EndpointEmbedder::Connect(url, options);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  return made ? std::move(*made) : nullptr;
}

void ExpectVectorOf(std::span<const float> got, const std::string& text) {
  const std::vector<float> want = VectorOf(text);
  double squared = 0;
  for (const float x : want) squared += double{x} * x;
  for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(got[d], want[d] / std::sqrt(squared), 1e-6) << text;
}

TEST(EndpointEmbedderTest, AsksAsTheApiWantsAndKeepsTheConnection) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url() + "/v1/#some/model", {"secret-key", 10s, 1ms});
  ASSERT_NE(embedder, nullptr);
  EXPECT_EQ(embedder->dim(), kDim);
  EXPECT_EQ(embedder->name(), server.Url() + "/v1#some/model");
  const std::vector<std::string_view> texts = {"one", "zwei \"ü\"\n", "三"};
  const auto vectors = embedder->Embed(texts);
  ASSERT_TRUE(vectors) << vectors.error().message;
  for (size_t i = 0; i < texts.size(); ++i)
    ExpectVectorOf(std::span(*vectors).subspan(i * kDim, kDim), std::string(texts[i]));
  EXPECT_TRUE(embedder->Embed({})->empty());
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  for (const SeenRequest& request : requests) {
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/embeddings");
    EXPECT_EQ(request.headers.at("host"), "127.0.0.1:" + std::to_string(server.port()));
    EXPECT_EQ(request.headers.at("authorization"), "Bearer secret-key");
    EXPECT_EQ(request.headers.at("content-type"), "application/json");
    EXPECT_EQ(json::parse(request.body)["model"], "some/model");
    EXPECT_EQ(request.connection, 0);
  }
}

TEST(EndpointEmbedderTest, WithoutModelAndKeyNoneIsSent) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url());
  ASSERT_NE(embedder, nullptr);
  EXPECT_FALSE(json::parse(server.requests().at(0).body).contains("model"));
  EXPECT_FALSE(server.requests().at(0).headers.contains("authorization"));
}

TEST(EndpointEmbedderTest, ManyTextsInSeveralRequests) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url());
  std::vector<std::string> texts;
  for (size_t i = 0; i < 2 * limits::kEndpointTexts + 3; ++i) texts.push_back("text " + std::to_string(i));
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto vectors = embedder->Embed(views);
  ASSERT_TRUE(vectors);
  for (size_t i = 0; i < texts.size(); ++i) ExpectVectorOf(std::span(*vectors).subspan(i * kDim, kDim), texts[i]);
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST(EndpointEmbedderTest, VectorsInAnyOrderOrWithoutIndex) {
  for (const bool has_index : {true, false}) {
    HttpServer server([&](const SeenRequest& request) {
      json answer = AnswerTo(json::parse(request.body));
      if (has_index) std::reverse(answer["data"].begin(), answer["data"].end());
      for (json& element : answer["data"])
        if (!has_index) element.erase("index");
      return Ok(answer.dump());
    });
    const auto embedder = Connected(server.Url());
    const std::vector<std::string_view> texts = {"a", "b", "c"};
    const auto vectors = embedder->Embed(texts);
    ASSERT_TRUE(vectors);
    for (size_t i = 0; i < 3; ++i) ExpectVectorOf(std::span(*vectors).subspan(i * kDim, kDim), std::string(texts[i]));
  }
}

// The first answer is right, the next ones are the given one.
std::string SecondAnswer(const std::function<Reply(const SeenRequest&)>& reply, std::string_view text = "some text",
                         const EndpointOptions& options = kFast) {
  int count = 0;
  HttpServer server([&](const SeenRequest& request) { return count++ == 0 ? Right(request) : reply(request); });
  const auto embedder = Connected(server.Url() + "#m", options);
  if (embedder == nullptr) return "";
  const auto vectors = embedder->Embed({&text, 1});
  EXPECT_FALSE(vectors);
  if (vectors) return "";
  EXPECT_EQ(vectors.error().code, ErrorCode::kEngine);
  EXPECT_THAT(vectors.error().message, HasSubstr(server.Url()));
  EXPECT_THAT(vectors.error().message, Not(HasSubstr(std::string(text))));
  return vectors.error().message;
}

TEST(EndpointEmbedderTest, WrongAnswers) {
  const auto body = [](const std::string& text) {
    return SecondAnswer([text](const SeenRequest&) { return Ok(text); });
  };
  EXPECT_THAT(body("<html>"), HasSubstr("not JSON"));
  EXPECT_THAT(body(""), HasSubstr("not JSON"));
  EXPECT_THAT(body("[]"), HasSubstr("\"data\""));
  EXPECT_THAT(body(R"({"data": 3})"), HasSubstr("\"data\""));
  EXPECT_THAT(body(R"({"data": []})"), HasSubstr("0 vectors for 1 texts"));
  EXPECT_THAT(body(R"({"data": [7]})"), HasSubstr("\"embedding\""));
  EXPECT_THAT(body(R"({"data": [{"embedding": "AAAA"}]})"), HasSubstr("\"embedding\""));
  EXPECT_THAT(body(R"({"data": [{"embedding": [1, 2, 3]}]})"), HasSubstr("3 elements instead of 8"));
  EXPECT_THAT(body(R"({"data": [{"embedding": [1, 2, 3, 4, 5, 6, 7, "8"]}]})"), HasSubstr("no number"));
  EXPECT_THAT(body(R"({"data": [{"embedding": [1, 2, 3, 4, 5, 6, 7, null]}]})"), HasSubstr("no number"));
  EXPECT_THAT(body(R"({"data": [{"embedding": [1, 2, 3, 4, 5, 6, 7, 1e39]}]})"), HasSubstr("too large"));
  EXPECT_THAT(body(R"({"data": [{"embedding": [0, 0, 0, 0, 0, 0, 0, 0]}]})"), HasSubstr("zeros"));
  EXPECT_THAT(body(R"({"data": [{"index": 1, "embedding": [1, 2, 3, 4, 5, 6, 7, 8]}]})"), HasSubstr("\"index\""));
  EXPECT_THAT(body(R"({"data": [{"index": -1, "embedding": [1, 2, 3, 4, 5, 6, 7, 8]}]})"), HasSubstr("\"index\""));
}

TEST(EndpointEmbedderTest, StatusesAreExplained) {
  const auto status = [](int code, const std::string& text) {
    return SecondAnswer([=](const SeenRequest&) { return Status(code, text); });
  };
  EXPECT_THAT(status(401, R"({"error": {"message": "bad key"}})"), HasSubstr("status 401: the key"));
  EXPECT_THAT(status(404, R"({"error": "model not found"})"), HasSubstr("\"model not found\""));
  EXPECT_THAT(status(400, R"({"detail": "line\nbreak"})"), HasSubstr("line break"));
  EXPECT_THAT(status(500, "not json"), HasSubstr("status 500"));
  EXPECT_THAT(status(302, ""), HasSubstr("status 302"));
  EXPECT_THAT(status(400, R"({"message": "cannot embed: some text"})"), Not(HasSubstr("cannot embed")));
  EXPECT_LT(status(400, R"({"message": ")" + std::string(5000, 'x') + "\"}").size(), 400u);
}

TEST(EndpointEmbedderTest, BrokenConnections) {
  EXPECT_THAT(SecondAnswer([](const SeenRequest&) { return Reply{"nonsense\r\n\r\n"}; }), HasSubstr("get an answer"));
  EXPECT_THAT(SecondAnswer([](const SeenRequest&) { return Reply{""}; }), HasSubstr("closed"));
  EXPECT_THAT(
      SecondAnswer([](const SeenRequest&) { return Reply{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"data\""}; }),
      HasSubstr("closed"));
  EXPECT_THAT(
      SecondAnswer([](const SeenRequest&) { return Reply{"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}; }),
      HasSubstr("longer than"));
  EXPECT_THAT(SecondAnswer([](const SeenRequest&) {
                return Reply{"HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"};
              }),
              HasSubstr("get an answer"));
}

TEST(EndpointEmbedderTest, SilentServersAreGivenUp) {
  const Stopwatch watch;
  int asked = 0;
  const auto silent = [&asked](const std::string& bytes) {
    return [&asked, bytes](const SeenRequest&) {
      ++asked;
      return Reply{bytes, false, true};
    };
  };
  const EndpointOptions impatient = {"", 150ms, 1ms};
  EXPECT_THAT(SecondAnswer(silent(""), "some text", impatient), HasSubstr("within 150 ms"));
  EXPECT_THAT(SecondAnswer(silent("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "some text", impatient),
              HasSubstr("within 150 ms"));
  EXPECT_EQ(asked, 2);  // what took all of the time is not tried again
  EXPECT_LT(watch.Millis(), 5000);
}

TEST(EndpointEmbedderTest, OverloadIsTriedAgain) {
  for (const int status : {429, 502, 503, 504, 0}) {  // 0: closes without an answer
    int count = 0;
    HttpServer server([&](const SeenRequest& request) {
      ++count;
      if (count == 2 || count == 3) return status == 0 ? Reply{""} : Status(status, "");
      return Right(request);
    });
    const auto embedder = Connected(server.Url());
    const std::string_view text = "again";
    const auto vectors = embedder->Embed({&text, 1});
    ASSERT_TRUE(vectors) << vectors.error().message;
    ExpectVectorOf(*vectors, "again");
    EXPECT_EQ(count, 4);
  }
  int count = 0;
  SecondAnswer([&](const SeenRequest&) {
    ++count;
    return Status(503, "");
  });
  EXPECT_EQ(count, limits::kEndpointAttempts);
  count = 0;
  SecondAnswer([&](const SeenRequest&) {
    ++count;
    return Status(400, "");
  });
  EXPECT_EQ(count, 1);
}

TEST(EndpointEmbedderTest, AConnectionThatWasClosedMeanwhileIsMadeAgain) {
  HttpServer server([](const SeenRequest& request) {
    Reply reply = Right(request);
    reply.keep_open = false;  // although it said nothing of closing
    return reply;
  });
  const auto embedder = Connected(server.Url());
  for (const char* text : {"a", "b", "c"}) {
    const std::string_view view = text;
    const auto vectors = embedder->Embed({&view, 1});
    ASSERT_TRUE(vectors) << vectors.error().message;
    ExpectVectorOf(*vectors, text);
  }
  EXPECT_EQ(server.requests().back().connection, 3);
}

TEST(EndpointEmbedderTest, NobodyListens) {
  std::string url;
  { url = HttpServer(Right).Url(); }
  const auto refused = EndpointEmbedder::Connect(url, kFast);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kEngine);
  EXPECT_THAT(refused.error().message, HasSubstr("could not connect to " + url));
}

TEST(EndpointEmbedderTest, WhatIsSentIsShortAndValid) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url());
  std::string words;
  for (int i = 0; i < 1000; ++i) words += "internationally ";
  std::string chinese;
  for (int i = 0; i < 1000; ++i) chinese += "字";
  const std::vector<std::string_view> texts = {words, chinese, ""};
  ASSERT_TRUE(embedder->Embed(texts));
  const json sent = json::parse(server.requests().back().body)["input"];
  for (const json& text : sent) {
    EXPECT_LE(embedder->CountTokens(text.get<std::string>()), static_cast<size_t>(limits::kEmbedTokens));
    EXPECT_FALSE(text.get<std::string>().empty());
  }
  EXPECT_EQ(sent[0], words.substr(0, sent[0].get<std::string>().size()));
  EXPECT_EQ(sent[1].get<std::string>().size(), 3u * (limits::kEmbedTokens - 2));
  const std::vector<std::string_view> bad = {"fine", "\xC3"};
  EXPECT_EQ(embedder->Embed(bad).error().code, ErrorCode::kInvalidUtf8);
  const std::string large(limits::kQuestionBytes + 1, 'x');
  const std::string_view view = large;
  EXPECT_EQ(embedder->Embed({&view, 1}).error().code, ErrorCode::kTooLarge);
}

TEST(EndpointEmbedderTest, TokensAreEstimated) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url());
  EXPECT_EQ(embedder->CountTokens(""), 2u);
  EXPECT_EQ(embedder->CountTokens("the cat sat"), 5u);
  EXPECT_EQ(embedder->CountTokens("international, 84.2"), 2u + 4 + 1 + 4);
  EXPECT_EQ(embedder->CountTokens("机器学习"), 6u);
}

TEST(EndpointEmbedderTest, KeyIsOfTheModelNotOfTheAddress) {
  HttpServer one(Right), two(Right);
  const auto key = [](const std::string& url) { return Connected(url)->key(); };  // the server takes one at a time
  const Hash128 m = key(one.Url() + "#m"), n = key(one.Url() + "#n"), moved = key(two.Url() + "#m");
  EXPECT_EQ(m, moved);
  EXPECT_NE(m, n);
  const Hash128 unnamed = key(one.Url()), other = key(two.Url());
  EXPECT_NE(unnamed, other);
}

TEST(EndpointEmbedderTest, ThreadsTakeTurns) {
  HttpServer server(Right);
  const auto embedder = Connected(server.Url());
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string text = std::to_string(t) + "/" + std::to_string(i);
        const std::string_view view = text;
        const auto vector = embedder->Embed({&view, 1});
        right[t] += vector && std::abs((*vector)[0] * VectorOf(text)[1] - (*vector)[1] * VectorOf(text)[0]) < 1e-4f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 20));
}

TEST(EndpointEmbedderTest, EncryptedAndVerified) {
  const std::string path = ::testing::TempDir() + "endpoint_test.pem";
  testing::WriteCertificate(path);
  HttpServer server(Right, path);
  {
    const auto stranger = EndpointEmbedder::Connect(server.Url(), kFast);
    ASSERT_FALSE(stranger);
    EXPECT_THAT(stranger.error().message, HasSubstr("certificate"));
  }
  ASSERT_EQ(::setenv("SSL_CERT_FILE", path.c_str(), 1), 0);
  {
    const auto embedder = Connected(server.Url());
    ASSERT_NE(embedder, nullptr);
    const std::string_view text = "safe";
    const auto vectors = embedder->Embed({&text, 1});
    ASSERT_TRUE(vectors);
    ExpectVectorOf(*vectors, "safe");
  }
  {  // the certificate is not for this name
    const auto other = EndpointEmbedder::Connect("https://127.0.0.1:" + std::to_string(server.port()), kFast);
    ASSERT_FALSE(other);
    EXPECT_THAT(other.error().message, HasSubstr("certificate"));
  }
  ::unsetenv("SSL_CERT_FILE");
  std::filesystem::remove(path);
}

TEST(HttpUrlTest, TakenApart) {
  const auto url = ParseHttpUrl("https://api.example.com/v1/#a#b");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls && url->host == "api.example.com" && url->port == 443 && url->path == "/v1");
  EXPECT_EQ(url->fragment, "a#b");
  EXPECT_EQ(url->Shown(), "https://api.example.com/v1");
  EXPECT_EQ(ParseHttpUrl("http://[::1]:8080")->Authority(), "[::1]:8080");
  EXPECT_EQ(ParseHttpUrl("http://h:80/")->Shown(), "http://h");
  for (const char* bad : {"", "ftp://h", "h", "http://", "http:///x", "http://h:", "http://h:0", "http://h:65536",
                          "http://h:8x", "http://user:pw@h/", "http://h/?q=1", "http://h /", "http://h\r\nX: y/",
                          "http://[::1", "http://[::1]8080", "http://[::1]:", "http://ü/"}) {
    const auto refused = ParseHttpUrl(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, Not(HasSubstr("pw")));
  }
}

TEST(MakeEmbedderTest, UrlsAndFiles) {
  HttpServer server(Right);
  ASSERT_EQ(::setenv("INFERSCALE_TEST_KEY", "from-the-environment", 1), 0);
  const auto endpoint = MakeEmbedder({server.Url() + "#m", 1, "INFERSCALE_TEST_KEY"});
  ::unsetenv("INFERSCALE_TEST_KEY");
  ASSERT_TRUE(endpoint) << endpoint.error().message;
  EXPECT_EQ((*endpoint)->dim(), kDim);
  EXPECT_EQ(server.requests().at(0).headers.at("authorization"), "Bearer from-the-environment");
  const auto file = MakeEmbedder({"/nowhere/model.gguf", 1});
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kNotFound);
  const auto bad_key = EndpointEmbedder::Connect(server.Url(), {"two\r\nlines", 10s, 1ms});
  ASSERT_FALSE(bad_key);
  EXPECT_EQ(bad_key.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad_key.error().message, Not(HasSubstr("lines")));
}

}  // namespace
}  // namespace inferscale
