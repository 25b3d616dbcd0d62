#include "core/window.h"

#include <optional>

#include "base/limits.h"

namespace inferscale {

namespace {

constexpr std::string_view kForms = "anchored:C, facts:N, near:A+B, turns:W or none";

std::string_view KindName(WindowKind kind) {
  switch (kind) {
    case WindowKind::kNone:
      return "none";
    case WindowKind::kAnchored:
      return "anchored";
    case WindowKind::kFacts:
      return "facts";
    case WindowKind::kNear:
      return "near";
    case WindowKind::kTurns:
      return "turns";
  }
  return "unknown";
}

std::optional<WindowKind> KindOf(std::string_view name) {
  for (const WindowKind kind :
       {WindowKind::kNone, WindowKind::kAnchored, WindowKind::kFacts, WindowKind::kNear, WindowKind::kTurns})
    if (name == KindName(kind)) return kind;
  return std::nullopt;
}

// A plain decimal number of at most limits::kRunFactsMax.
Result<int> ParseCount(std::string_view text, int minimum) {
  const auto fail = [&] {
    return Fail(ErrorCode::kInvalidArgument,
                "expected a number from " + std::to_string(minimum) + " to " + std::to_string(limits::kRunFactsMax));
  };
  if (text.empty() || text.size() > 4) return fail();
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return fail();
    value = value * 10 + (c - '0');
  }
  if (value < minimum || value > limits::kRunFactsMax) return fail();
  return value;
}

Result<WindowSpec> ParseNear(std::string_view value) {
  const size_t plus = value.find('+');
  if (plus == std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, "expected two numbers, as in near:10+10");
  TRY_ASSIGN(const int nearest, ParseCount(value.substr(0, plus), 0));
  TRY_ASSIGN(const int preceding, ParseCount(value.substr(plus + 1), 0));
  if (nearest + preceding == 0)
    return Fail(ErrorCode::kInvalidArgument, "both numbers are 0: for no window write none");
  return WindowSpec{WindowKind::kNear, preceding, nearest};
}

Result<WindowSpec> ParseValue(WindowKind kind, std::string_view value) {
  if (kind == WindowKind::kNear) return ParseNear(value);
  TRY_ASSIGN(const int count, ParseCount(value, 1));
  return WindowSpec{kind, count, 0};
}

}  // namespace

std::string WindowSpec::ToString() const {
  const std::string name(KindName(kind));
  if (kind == WindowKind::kNone) return name;
  if (kind == WindowKind::kNear) return name + ":" + std::to_string(near) + "+" + std::to_string(count);
  return name + ":" + std::to_string(count);
}

Result<WindowSpec> ParseWindowSpec(std::string_view text) {
  const std::string context = "encode window \"" + std::string(text.substr(0, 40)) + "\"";
  if (text == "none") return WindowSpec{WindowKind::kNone, 0, 0};
  const size_t colon = text.find(':');
  const std::optional<WindowKind> kind = KindOf(text.substr(0, colon));
  if (!kind || *kind == WindowKind::kNone)
    return Fail(ErrorCode::kInvalidArgument, context + ": expected " + std::string(kForms));
  if (colon == std::string_view::npos)
    return Fail(ErrorCode::kInvalidArgument, context + ": the number is missing, expected " + std::string(kForms));
  Result<WindowSpec> spec = ParseValue(*kind, text.substr(colon + 1));
  if (!spec) return Wrap(std::move(spec).error(), context);
  return spec;
}

Hash128 WindowDigest(WindowKind kind, std::span<const Sight> seen) {
  Hasher hasher;
  hasher.U32(static_cast<uint32_t>(kind)).U64(seen.size());
  for (const Sight& sight : seen) hasher.Str(sight.id).U32(sight.version).Ids(sight.tokens);
  return hasher.Finish();
}

}  // namespace inferscale
