// Fact windows: which texts a fact's KV sees when it is encoded, and the digest that names that sight.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "core/types.h"

namespace inferscale {

enum class WindowKind : uint8_t {
  kNone = 0,      // header only (the paper's w = 0, with a header)
  kAnchored = 1,  // fact runs of C behind an anchor of C (default): core/fact_run.h
  kFacts = 2,     // the N preceding facts
  kNear = 3,      // the A nearest earlier facts, then the B preceding ones
  kTurns = 4,     // the W conversation turns before the fact's source turn (the paper's Context-Window Encoding)
};

// The value of --encode-window.
struct WindowSpec {
  WindowKind kind = WindowKind::kAnchored;
  int count = limits::kRunFacts;  // C, N, B or W
  int near = 0;                   // A

  bool operator==(const WindowSpec&) const = default;
  std::string ToString() const;  // "anchored:20", "near:10+10", "none"
};

// "anchored:C | facts:N | near:A+B | turns:W | none", each count 1..limits::kRunFactsMax (A or B may be 0, not both).
Result<WindowSpec> ParseWindowSpec(std::string_view text);

// One text that a record has seen: a fact or a turn.
struct Sight {
  std::string_view id;
  uint32_t version = 1;
  std::span<const TokenId> tokens;
};

// XXH3-128 of the window's kind and the ordered (id, version, tokens) that a record has seen, header excluded.
Hash128 WindowDigest(WindowKind kind, std::span<const Sight> seen);

}  // namespace inferscale
