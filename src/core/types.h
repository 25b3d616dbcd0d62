// Scalar types used everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"

namespace inferscale {

using TokenId = int32_t;
using Tokens = std::vector<TokenId>;

// Identity of (weights, architecture, rope, tokenizer, adapter): a KV record is valid for exactly one.
using ModelKey = Hash128;

// Digest of a RecordKey: names a record in a store, a plan and a cache file.
using RecordId = Hash128;

}  // namespace inferscale
