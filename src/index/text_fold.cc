#include "index/text_fold.h"

#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace inferscale {

namespace {

// ICU counts in int32_t. A character of three bytes may fold into 18 code units (U+FDFA), and these have up to 54
// bytes.
constexpr size_t kMaxBytes = size_t{32} << 20;

std::u16string DecodeUtf8(std::string_view text) {
  std::u16string out(text.size(), u'\0');  // no byte sequence is longer in UTF-16
  int32_t size = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strFromUTF8WithSub(out.data(), static_cast<int32_t>(out.size()), &size, text.data(),
                       static_cast<int32_t>(text.size()), 0xFFFD, nullptr, &error);
  INFERSCALE_ASSERT(U_SUCCESS(error));
  out.resize(static_cast<size_t>(size));
  return out;
}

std::u16string CaseFold(std::u16string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* fold = unorm2_getNFKCCasefoldInstance(&error);
  INFERSCALE_ASSERT(U_SUCCESS(error));  // its data is part of the library
  const auto run = [&](std::u16string& out) {
    return unorm2_normalize(fold, text.data(), static_cast<int32_t>(text.size()), out.data(),
                            static_cast<int32_t>(out.size()), &error);
  };
  std::u16string out(text.size() + text.size() / 4 + 16, u'\0');  // enough but for rare texts
  int32_t size = run(out);
  if (error == U_BUFFER_OVERFLOW_ERROR) {
    error = U_ZERO_ERROR;
    out.resize(static_cast<size_t>(size));
    size = run(out);
  }
  INFERSCALE_ASSERT(U_SUCCESS(error));
  out.resize(static_cast<size_t>(size));
  return out;
}

}  // namespace

std::u16string FoldToUtf16(std::string_view text) {
  if (text.empty() || text.size() > kMaxBytes) return {};
  std::u16string folded = CaseFold(DecodeUtf8(text));
  std::replace(folded.begin(), folded.end(), u'\u2019', u'\'');  // both are written for the same apostrophe
  return folded;
}

std::string FoldText(std::string_view text) {
  const std::u16string folded = FoldToUtf16(text);
  std::string out(3 * folded.size(), '\0');  // at most three bytes a code unit
  int32_t size = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strToUTF8(out.data(), static_cast<int32_t>(out.size()), &size, folded.data(), static_cast<int32_t>(folded.size()),
              &error);
  INFERSCALE_ASSERT(U_SUCCESS(error));
  out.resize(static_cast<size_t>(size));
  return out;
}

}  // namespace inferscale
