// A fact or a turn as an application gives it to the durable memory, and what makes one acceptable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "core/date.h"

namespace inferscale {

struct FactInput {
  std::string id;  // empty: one is made
  std::string text;
  std::optional<Date> date;
  std::optional<Date> order_day;     // the day that orders an undated fact; none: the day of its arrival
  std::optional<Micros> expires_us;  // instant from which on it is not found any more
  std::string metadata;              // a JSON object as text, or empty
  FactScope scope;
  std::string turn;                     // id of its source turn, or empty
  std::string supersede_key;            // replaces live facts with the same key; or empty
  std::vector<std::string> supersedes;  // ids of facts it replaces
};

// kInvalidUtf8, kInvalidArgument (empty text, a NUL character, metadata with one, an expiry in the past), kInvalidJson
// (metadata that is no JSON object), kTooLarge (metadata nested too deep too): says which field, and what to do. Lone
// surrogates are not UTF-8.
Status CheckFactInput(const FactInput& fact);

// The text alone: valid UTF-8 without NUL, not blank, at most limits::kFactBytes.
Status CheckFactText(std::string_view text);

// An id that an application gave: not empty, at most limits::kGivenIdBytes, no control characters.
Status CheckGivenId(std::string_view id, std::string_view field);

// A name or a key: valid UTF-8 without NUL, at most limits::kNamespaceBytes.
Status CheckGivenText(std::string_view text, std::string_view field);

// A question: not empty, valid UTF-8 without NUL, at most limits::kQuestionBytes.
Status CheckQuery(std::string_view query);

}  // namespace inferscale
