#include "catalog/sqlite_codec.h"

#include <chrono>
#include <cstring>

#include "base/limits.h"

namespace inferscale::sqlite {

namespace {

constexpr size_t kSumBytes = 8;

std::string SumBytes(std::string_view bytes) {
  const uint64_t sum = Checksum64(bytes.data(), bytes.size());
  return {reinterpret_cast<const char*>(&sum), sizeof sum};
}

bool SumFits(std::string_view blob) {
  return blob.size() >= kSumBytes && SumBytes(blob.substr(kSumBytes)) == blob.substr(0, kSumBytes);
}

int64_t SumOf(const Packer& packer) {
  return static_cast<int64_t>(Checksum64(packer.bytes().data(), packer.bytes().size()));
}

std::string SumBytes(const KvRow& row, std::string_view seen) {
  Packer packer;
  packer.Varint(row.record).Signed(row.name_space).Varint(row.fact).Varint(row.content_version);
  packer.Str(HashBlob(row.model_key)).Varint(static_cast<uint64_t>(row.encoding));
  packer.Str(HashBlob(row.calibration_id)).Str(HashBlob(row.window_digest));
  packer.Varint(row.n_tokens).Varint(row.location.bytes).Str(seen);
  return SumBytes(packer.bytes());
}

void PackDate(Packer& packer, const std::optional<Date>& date) {
  packer.Varint(date ? 1 : 0).Signed(date ? DayOf(*date) : 0);
}

}  // namespace

Packer& Packer::Varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
  return *this;
}

Packer& Packer::Signed(int64_t value) {
  return Varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
}

Packer& Packer::Str(std::string_view text) {
  Varint(text.size());
  bytes_ += text;
  return *this;
}

std::string Packer::Sealed() const { return SumBytes(bytes_) + bytes_; }

Unpacker Unpacker::OfSealed(std::string_view blob) {
  Unpacker unpacker(SumFits(blob) ? blob.substr(kSumBytes) : std::string_view());
  unpacker.ok_ = SumFits(blob);
  return unpacker;
}

uint64_t Unpacker::Varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return 0;
}

int64_t Unpacker::Signed() {
  const uint64_t value = Varint();
  return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

std::string_view Unpacker::Str() {
  const uint64_t size = Varint();
  if (size > rest_.size()) ok_ = false;
  if (!ok_) return {};
  const std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return text;
}

// The seqs of a window are mostly neighbours: a difference and a version take two bytes for most of them.
std::string PackSeen(const KvRow& row) {
  Packer packer;
  uint64_t last = 0;
  for (const Seen& each : row.saw) {
    packer.Varint(static_cast<uint64_t>(each.kind));
    packer.Signed(static_cast<int64_t>(each.seq - last)).Varint(each.version);
    last = each.seq;
  }
  return SumBytes(row, packer.bytes()).append(packer.bytes());
}

bool UnpackSeen(std::string_view blob, KvRow& row) {
  row.saw.clear();
  if (blob.size() < kSumBytes) return false;
  const std::string_view seen = blob.substr(kSumBytes);
  if (SumBytes(row, seen) != blob.substr(0, kSumBytes)) return false;
  Unpacker unpacker(seen);
  uint64_t last = 0;
  while (unpacker.more()) {
    Seen& each = row.saw.emplace_back();
    each.kind = static_cast<SeenKind>(unpacker.Varint());
    each.seq = last = last + static_cast<uint64_t>(unpacker.Signed());
    each.version = static_cast<uint32_t>(unpacker.Varint());
  }
  return unpacker.done();
}

std::string PackTerms(std::span<const TermRef> terms) {
  Packer packer;
  for (const TermRef& term : terms) packer.Varint(static_cast<uint64_t>(term.term)).Varint(term.count);
  return packer.Sealed();
}

std::optional<std::vector<TermRef>> UnpackTerms(std::string_view blob) {
  Unpacker unpacker = Unpacker::OfSealed(blob);
  std::vector<TermRef> terms;
  while (unpacker.more()) {
    TermRef& term = terms.emplace_back();
    term.term = static_cast<int64_t>(unpacker.Varint());
    term.count = static_cast<uint32_t>(unpacker.Varint());
  }
  if (!unpacker.done()) return std::nullopt;
  return terms;
}

std::string PackVector(std::span<const float> vector) {
  const std::string_view bytes(reinterpret_cast<const char*>(vector.data()), vector.size_bytes());
  return SumBytes(bytes).append(bytes);
}

bool UnpackVector(std::string_view blob, uint32_t dims, std::vector<float>& out) {
  if (blob.size() != kSumBytes + size_t{dims} * sizeof(float) || !SumFits(blob)) return false;
  out.resize(dims);
  std::memcpy(out.data(), blob.data() + kSumBytes, size_t{dims} * sizeof(float));
  return true;
}

std::string SealText(std::string_view key, std::string_view text) {
  Packer packer;
  packer.Str(key).Str(text);
  return SumBytes(packer.bytes()).append(text);
}

std::optional<std::string> UnsealText(std::string_view key, std::string_view blob) {
  if (blob.size() < kSumBytes) return std::nullopt;
  const std::string_view text = blob.substr(kSumBytes);
  if (SealText(key, text) != blob) return std::nullopt;
  return std::string(text);
}

std::string KeyDigest(NamespaceId ns, std::string_view key) {
  Packer packer;
  packer.Signed(ns).Str(key);
  return HashBlob(HashBytes(packer.bytes()));
}

std::string HistoryKey(NamespaceId ns, std::string_view fact, int64_t n) {
  Packer packer;
  packer.Signed(ns).Str(fact).Signed(n);
  return packer.bytes();
}

std::string PackAdded(std::span<const AddedFact> facts) {
  Packer packer;
  packer.Varint(facts.size());
  for (const AddedFact& fact : facts) {
    packer.Varint(static_cast<uint64_t>(fact.outcome)).Str(fact.id).Varint(fact.seq).Varint(fact.version);
    packer.Varint(fact.parts.size());
    for (const FactSeq part : fact.parts) packer.Varint(part);
  }
  return packer.Sealed();
}

std::optional<std::vector<AddedFact>> UnpackAdded(std::string_view blob) {
  Unpacker unpacker = Unpacker::OfSealed(blob);
  const uint64_t count = unpacker.Varint();
  std::vector<AddedFact> facts;
  for (uint64_t i = 0; i < count && unpacker.ok(); ++i) {
    AddedFact& fact = facts.emplace_back();
    fact.outcome = static_cast<AddOutcome>(unpacker.Varint());
    fact.id = unpacker.Str();
    fact.seq = unpacker.Varint();
    fact.version = static_cast<uint32_t>(unpacker.Varint());
    const uint64_t parts = unpacker.Varint();
    for (uint64_t part = 0; part < parts && unpacker.ok(); ++part) fact.parts.push_back(unpacker.Varint());
  }
  if (!unpacker.done()) return std::nullopt;
  return facts;
}

bool IsDay(std::optional<int64_t> day) {
  constexpr int64_t kFirst = -719162, kLast = 2932896;  // 0001-01-01 and 9999-12-31
  return !day || (*day >= kFirst && *day <= kLast);
}

int64_t DayOf(const Date& date) {
  const std::chrono::year_month_day ymd(std::chrono::year(date.year), std::chrono::month(unsigned(date.month)),
                                        std::chrono::day(unsigned(date.day)));
  return std::chrono::sys_days(ymd).time_since_epoch().count();
}

Date DateOf(int64_t day) {
  const std::chrono::year_month_day ymd{std::chrono::sys_days(std::chrono::days(day))};
  return {int(ymd.year()), static_cast<int>(unsigned(ymd.month())), static_cast<int>(unsigned(ymd.day()))};
}

Date DateOfInstant(Micros instant) {
  constexpr Micros kDay = 24ll * 3600 * 1'000'000;
  return DateOf(instant / kDay - (instant % kDay < 0 ? 1 : 0));
}

Hash128 ContentHash(std::string_view text, const std::optional<Date>& date) {
  Packer packer;
  PackDate(packer, date);
  packer.Str(text);
  return HashBytes(packer.bytes());
}

std::string HashBlob(const Hash128& hash) {
  std::string blob;
  for (const uint64_t half : {hash.high, hash.low})
    for (int shift = 56; shift >= 0; shift -= 8) blob += static_cast<char>(half >> shift);
  return blob;
}

std::optional<Hash128> HashOfBlob(std::string_view blob) {
  if (blob.size() != 16) return std::nullopt;
  Hash128 hash;
  for (size_t i = 0; i < 16; ++i) {
    uint64_t& half = i < 8 ? hash.high : hash.low;
    half = half << 8 | static_cast<unsigned char>(blob[i]);
  }
  return hash;
}

int64_t SumOf(const FactRow& row) {
  Packer packer;
  packer.Signed(row.name_space).Str(row.id).Varint(row.version);
  packer.Varint(static_cast<uint64_t>(row.kind)).Varint(row.part_of).Str(row.text);
  PackDate(packer, row.date);
  packer.Signed(DayOf(row.order_day)).Signed(row.created_us).Signed(row.updated_us);
  packer.Varint(row.expires_us ? 1 : 0).Signed(row.expires_us.value_or(0)).Str(row.metadata);
  packer.Str(row.scope.user_id).Str(row.scope.agent_id).Str(row.scope.run_id).Str(row.scope.app_id);
  packer.Str(row.turn).Str(row.supersede_key).Str(row.superseded_by).Varint(row.words);
  return SumOf(packer);
}

int64_t SumOf(NamespaceId ns, const TurnRow& row) {
  Packer packer;
  packer.Signed(ns).Str(row.id).Varint(row.ordinal).Str(row.speaker).Str(row.text).Varint(row.version);
  PackDate(packer, row.date);
  return SumOf(packer);
}

int64_t SumOfName(std::string_view name) { return static_cast<int64_t>(Checksum64(name.data(), name.size())); }

int64_t SumOfTerm(NamespaceId ns, std::string_view term) {
  Packer packer;
  packer.Signed(ns).Str(term);
  return SumOf(packer);
}

}  // namespace inferscale::sqlite
