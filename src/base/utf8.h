// UTF-8 checks shared by everything that takes text from outside.
#pragma once

#include <cstddef>
#include <string_view>

namespace inferscale {

// Byte offset of the first ill-formed sequence (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF), or npos.
size_t FirstInvalidUtf8(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return FirstInvalidUtf8(text) == std::string_view::npos; }

// Length in bytes of the code point that starts at text[at]; text is valid UTF-8 and at < text.size().
size_t CodePointBytes(std::string_view text, size_t at);

// The largest offset <= at that does not cut a code point; text is valid UTF-8.
size_t FloorToCodePoint(std::string_view text, size_t at);

}  // namespace inferscale
