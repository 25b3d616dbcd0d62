// JSON Lines: the lines of a file, and typed fields of one line's object.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "core/date.h"

namespace inferscale {

// Calls on_object for the JSON object of each line that is not blank, with its number (from 1). Errors, also those of
// on_object, come back as "NAME: line 3: …". Returns how many objects there were.
using OnJsonObject = std::function<Status(size_t line, const nlohmann::json& object)>;
Result<size_t> ForEachJsonLine(std::string_view content, std::string_view name, const OnJsonObject& on_object);

// A string field. kInvalidArgument: it is not a string, has a NUL character, or is missing and required.
Result<std::optional<std::string>> OptionalString(const nlohmann::json& object, const char* key);
Result<std::string> RequiredString(const nlohmann::json& object, const char* key);
// "date": absent or null is no date. kInvalidDate.
Result<std::optional<Date>> OptionalDate(const nlohmann::json& object);

}  // namespace inferscale
