#include "core/window.h"

#include <gtest/gtest.h>

#include <set>

namespace inferscale {
namespace {

TEST(WindowSpecTest, RoundTrip) {
  for (const char* text :
       {"anchored:20", "anchored:1", "facts:200", "near:10+10", "near:0+3", "near:7+0", "turns:50", "none"}) {
    const auto spec = ParseWindowSpec(text);
    ASSERT_TRUE(spec.has_value()) << text << ": " << spec.error().message;
    EXPECT_EQ(spec->ToString(), text);
  }
  EXPECT_EQ(*ParseWindowSpec("near:3+9"), (WindowSpec{WindowKind::kNear, 9, 3}));
  EXPECT_EQ(WindowSpec{}.ToString(), "anchored:20");
}

TEST(WindowSpecTest, RefusesWithAdvice) {
  for (const char* text : {"",
                           "anchor:20",
                           "anchored",
                           "anchored:",
                           "anchored:0",
                           "anchored:201",
                           "anchored:-1",
                           "anchored:+5",
                           "anchored: 5",
                           "anchored:5 ",
                           "anchored:5x",
                           "facts:99999999999999999999",
                           "near:5",
                           "near:0+0",
                           "near:+5",
                           "near:5+",
                           "near:1+2+3",
                           "turns:0",
                           "none:1",
                           "none:",
                           "Facts:3",
                           ":3"}) {
    const auto spec = ParseWindowSpec(text);
    ASSERT_FALSE(spec.has_value()) << text;
    EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(spec.error().message.find("\"" + std::string(text) + "\""), std::string::npos) << spec.error().message;
  }
  EXPECT_NE(ParseWindowSpec("anchor:20").error().message.find("anchored:C"), std::string::npos);
  EXPECT_NE(ParseWindowSpec("facts:999").error().message.find("1 to 200"), std::string::npos);
  EXPECT_LT(ParseWindowSpec(std::string(100'000, 'a')).error().message.size(), 200u);
}

TEST(WindowDigestTest, EveryPartCounts) {
  const Tokens ab = {1, 2}, a = {1}, b = {2};
  std::set<std::string> digests;
  const auto add = [&](WindowKind kind, std::vector<Sight> seen) { digests.insert(WindowDigest(kind, seen).Hex()); };
  add(WindowKind::kAnchored, {});
  add(WindowKind::kNone, {});
  add(WindowKind::kAnchored, {{"f1", 1, ab}});
  add(WindowKind::kFacts, {{"f1", 1, ab}});
  add(WindowKind::kAnchored, {{"f1", 2, ab}});
  add(WindowKind::kAnchored, {{"f2", 1, ab}});
  add(WindowKind::kAnchored, {{"f1", 1, a}});
  add(WindowKind::kAnchored, {{"f1", 1, a}, {"f2", 1, b}});
  add(WindowKind::kAnchored, {{"f2", 1, b}, {"f1", 1, a}});
  add(WindowKind::kAnchored, {{"f1", 1, ab}, {"f2", 1, {}}});
  add(WindowKind::kAnchored, {{"f1", 1, {}}, {"f2", 1, ab}});
  EXPECT_EQ(digests.size(), 11u);
}

TEST(WindowDigestTest, IsStable) {  // records of earlier versions are found by it: a change needs a new record format
  const Tokens tokens = {1, 2, 3};
  const std::vector<Sight> seen = {{"f1", 1, tokens}};
  EXPECT_EQ(WindowDigest(WindowKind::kAnchored, seen).Hex(), "51bc71d8bf2783d8c591fbd61d1b0cf1");
}

}  // namespace
}  // namespace inferscale
