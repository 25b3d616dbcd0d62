// How values are packed into columns: bytes with variable-length integers, each blob behind a checksum, since SQLite
// has none of its own. Formats: docs/formats/catalog.md.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog_types.h"

namespace inferscale::sqlite {

// Appends values to a string.
class Packer {
 public:
  Packer& Varint(uint64_t value);  // 7 bits a byte, the lowest first
  Packer& Signed(int64_t value);   // zigzag, then as above
  Packer& Str(std::string_view text);
  const std::string& bytes() const { return bytes_; }
  // The bytes behind their XXH3-64.
  std::string Sealed() const;

 private:
  std::string bytes_;
};

// Reads them back. A read past the end gives zeros and makes ok() false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  // Of a sealed blob; ok() is false when the checksum does not fit.
  static Unpacker OfSealed(std::string_view blob);
  uint64_t Varint();
  int64_t Signed();
  std::string_view Str();
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }
  bool more() const { return ok_ && !rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// What a record has seen, behind a checksum of that and of all other fields of its row but segment and offset: the
// store checks those. Unpack fills row.saw; false: damaged.
std::string PackSeen(const KvRow& row);
bool UnpackSeen(std::string_view blob, KvRow& row);

// A fact's terms: ids of the terms table, and counts.
struct TermRef {
  int64_t term = 0;
  uint32_t count = 0;
};
std::string PackTerms(std::span<const TermRef> terms);
std::optional<std::vector<TermRef>> UnpackTerms(std::string_view blob);

// A vector: its floats behind their XXH3-64.
std::string PackVector(std::span<const float> vector);
// Into `out`, [dims]; false: damaged, or of other dims.
bool UnpackVector(std::string_view blob, uint32_t dims, std::vector<float>& out);

// The result that an idempotency key stands for.
std::string PackAdded(std::span<const AddedFact> facts);
std::optional<std::vector<AddedFact>> UnpackAdded(std::string_view blob);

// Days since 1970-01-01, negative before it.
int64_t DayOf(const Date& date);
bool IsDay(std::optional<int64_t> day);  // nullopt too; of other numbers, which are damage, no Date can be made
Date DateOf(int64_t day);
Date DateOfInstant(Micros instant);  // in UTC

// Finds equal facts: XXH3-128 of text and date.
Hash128 ContentHash(std::string_view text, const std::optional<Date>& date);
std::string HashBlob(const Hash128& hash);  // 16 bytes, high half first, big-endian
std::optional<Hash128> HashOfBlob(std::string_view blob);

// A value behind the checksum of its key and itself: words of the history, settings. nullopt: damaged, or of another
// key.
std::string SealText(std::string_view key, std::string_view text);
std::optional<std::string> UnsealText(std::string_view key, std::string_view blob);
std::string HistoryKey(NamespaceId ns, std::string_view fact, int64_t n);

// What is stored of an idempotency key.
std::string KeyDigest(NamespaceId ns, std::string_view key);

// Checksums of whole rows, for the sum columns. The seq is not in it: it is known only after the row is inserted.
int64_t SumOf(const FactRow& row);
int64_t SumOf(NamespaceId ns, const TurnRow& row);
// Of a namespace's name, and of a term in its namespace: the row that an index leads to is the one asked for.
int64_t SumOfName(std::string_view name);
int64_t SumOfTerm(NamespaceId ns, std::string_view term);

}  // namespace inferscale::sqlite
