#include "catalog/sqlite_log.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/file_ops.h"

namespace inferscale::sqlite {

namespace {

// The format of the log, as SQLite's documentation describes it.
constexpr size_t kLogHeader = 32, kFrameHeader = 24;
constexpr uint32_t kMagic = 0x377f0682;  // and, in the lowest bit, whether checksums are of big-endian words
constexpr uint64_t kMaxPage = 65'536;

uint32_t BigEndian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

struct Sum {
  uint32_t a = 0, b = 0;
  bool operator==(const Sum&) const = default;
};

Sum SumAt(const uint8_t* at) { return {BigEndian(at), BigEndian(at + 4)}; }

// Goes on with a running checksum. bytes: a multiple of 8.
Sum Continue(Sum sum, bool big_endian, const uint8_t* at, size_t bytes) {
  const auto word = [big_endian](const uint8_t* p) {
    return big_endian ? BigEndian(p) : __builtin_bswap32(BigEndian(p));
  };
  for (size_t i = 0; i < bytes; i += 8) {
    sum.a += word(at + i) + sum.b;
    sum.b += word(at + i + 4) + sum.a;
  }
  return sum;
}

class LogReader {
 public:
  LogReader(File& file, uint64_t size) : file_(file), size_(size) {}

  Result<bool> IsDamaged() {
    if (size_ < kLogHeader) return false;
    header_.resize(kLogHeader);
    TRY(Fill(0, header_));
    if (std::all_of(header_.begin(), header_.end(), [](uint8_t byte) { return byte == 0; })) return false;  // unwritten
    const uint32_t magic = BigEndian(header_.data());
    big_endian_ = (magic & 1) != 0;
    page_ = BigEndian(header_.data() + 8);
    Sum sum = Continue({}, big_endian_, header_.data(), 24);
    // It is in one sector: never half written.
    if ((magic & ~1u) != kMagic || sum != SumAt(header_.data() + 24) || page_ < 512 || page_ > kMaxPage) return true;
    bool prefix = true;              // all frames so far fit
    bool whole_transaction = false;  // there is one behind
    frame_.resize(kFrameHeader + page_);
    for (uint64_t at = kLogHeader; at + frame_.size() <= size_; at += frame_.size()) {
      TRY(Fill(at, frame_));
      const Sum stored = SumAt(frame_.data() + 16);
      const bool fits = IsOfThisLog() && SumFrom(sum) == stored;
      sum = stored;  // the next frame goes on from here, whether this one is whole or not
      if (prefix || !fits) {
        prefix = prefix && fits;
        continue;
      }
      if (whole_transaction) return true;
      whole_transaction = BigEndian(frame_.data() + 4) != 0;  // the size after a commit
    }
    return false;
  }

 private:
  Status Fill(uint64_t at, std::vector<uint8_t>& bytes) {
    TRY_ASSIGN(const size_t got, file_.Read(at, std::as_writable_bytes(std::span(bytes))));
    if (got != bytes.size()) return Fail(ErrorCode::kIo, "catalog: its log became shorter while it was read");
    return {};
  }
  // Not left from before the log was begun anew.
  bool IsOfThisLog() const { return std::equal(header_.begin() + 16, header_.begin() + 24, frame_.begin() + 8); }
  Sum SumFrom(Sum sum) const {
    sum = Continue(sum, big_endian_, frame_.data(), 8);
    return Continue(sum, big_endian_, frame_.data() + kFrameHeader, page_);
  }

  File& file_;
  const uint64_t size_;
  std::vector<uint8_t> header_, frame_;
  bool big_endian_ = false;
  uint64_t page_ = 0;
};

}  // namespace

Result<bool> LogIsDamaged(const std::filesystem::path& log) {
  auto file = PosixFiles().Open(log, OpenMode::kRead);
  if (!file && file.error().code == ErrorCode::kNotFound) return false;
  if (!file) return tl::unexpected<Error>(std::move(file).error());
  TRY_ASSIGN(const FileSize size, (*file)->Size());
  return LogReader(**file, size.bytes).IsDamaged();
}

}  // namespace inferscale::sqlite
