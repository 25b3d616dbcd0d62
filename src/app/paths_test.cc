#include "app/paths.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace inferscale {
namespace {

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      if (value != nullptr) kept_[name] = value;
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : kept_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {"INFERSCALE_CACHE", "XDG_CACHE_HOME", "HOME", "INFERSCALE_MODEL_DIR"};
  std::map<std::string, std::string> kept_;
};

TEST_F(PathsTest, WithoutHomeThereIsNoDefault) {
  EXPECT_EQ(DefaultKvFolder().path, "");
  EXPECT_EQ(DefaultModel().path, "");
  EXPECT_EQ(DefaultKvFolder().shown, "~/.cache/inferscale/kv");
  setenv("HOME", "", 1);
  EXPECT_EQ(DefaultKvFolder().path, "");
}

TEST_F(PathsTest, TheNarrowestVariableDecides) {
  setenv("HOME", "/h", 1);
  EXPECT_EQ(DefaultKvFolder().path, "/h/.cache/inferscale/kv");
  EXPECT_EQ(DefaultEmbedModel().shown, "~/.cache/inferscale/models/all-MiniLM-L6-v2.f16.gguf");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(DefaultKvFolder().path, "/x/inferscale/kv");
  EXPECT_EQ(DefaultKvFolder().shown, "$XDG_CACHE_HOME/inferscale/kv");
  setenv("INFERSCALE_CACHE", "/c", 1);
  EXPECT_EQ(DefaultKvFolder().path, "/c/kv");
  setenv("INFERSCALE_MODEL_DIR", "/m", 1);
  EXPECT_EQ(DefaultEmbedModel().path, "/m/all-MiniLM-L6-v2.f16.gguf");
  EXPECT_EQ(DefaultEmbedModel().shown, "$INFERSCALE_MODEL_DIR/all-MiniLM-L6-v2.f16.gguf");
  EXPECT_EQ(DefaultKvFolder().path, "/c/kv");
}

}  // namespace
}  // namespace inferscale
