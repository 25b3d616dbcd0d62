// The one form in which texts are compared without regard to case and writing: NFKC with full case folding (Unicode's
// NFKC_Casefold), and ’ as '. "ＦＵＬＬ Straße" and "full strasse" are equal in it.
#pragma once

#include <string>
#include <string_view>

namespace inferscale {

// text: UTF-8; each ill-formed byte sequence becomes U+FFFD. Nothing is left of a text over 32 MiB: no text of ours is
// that long.
std::string FoldText(std::string_view text);
std::u16string FoldToUtf16(std::string_view text);

}  // namespace inferscale
