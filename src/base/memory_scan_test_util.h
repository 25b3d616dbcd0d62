// Looks for bytes in this process's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace inferscale {

// Bytes that are kept in another form, so that looking for them does not find the looker.
class HiddenBytes {
 public:
  // A word of 24 random letters.
  static HiddenBytes Word();
  // Of the bytes given, which are overwritten.
  static HiddenBytes Of(std::string& bytes);
  std::string Show() const;  // to be overwritten by whoever asks

  // How many places of this process's readable memory have them. Reads it all through the kernel.
  size_t CountInMemory() const;

 private:
  std::string inverted_;
};

// Overwrites a string that is still owned.
void Wipe(std::string& text);

}  // namespace inferscale
