#include "core/kv_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.h"
#include "base/file.h"
#include "core/kv_record_format.h"
#include "core/payload_pool.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

// A header of up to 4 KiB (about 950 tokens) comes with the first read; a longer one takes another.
constexpr size_t kFirstReadBytes = 4096;

struct Fd {
  int fd;
  explicit Fd(int opened) : fd(opened) {}
  ~Fd() {
    if (fd >= 0) ::close(fd);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
};

// Fills all of [data, data + size) from `at`.
Status ReadExactly(int fd, void* data, size_t size, size_t at, const fs::path& path) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::pread(fd, to, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return tl::unexpected<Error>(ErrnoError(errno, "read", path));
    if (n == 0) return Fail(ErrorCode::kCorrupt, "KV record: the file became shorter while it was read");
    to += n;
    at += static_cast<size_t>(n);
    size -= static_cast<size_t>(n);
  }
  return {};
}

Status MustBeExact(const RecordSizes& sizes) {
  if (!IsQuantised(sizes.encoding)) return {};
  return Fail(ErrorCode::kMismatch, "KV record: it is quantised, and read by way of its calibration only");
}

std::span<const std::byte> BytesOf(const KvPayload& payload) {
  return {reinterpret_cast<const std::byte*>(payload.data()), payload.bytes()};
}

Result<std::string> HeaderOf(const KvRecord& record) {
  if (record.key.encoding != KvEncoding::kF16)
    return Fail(ErrorCode::kInvalidArgument, "KV record: its elements are f16, its key says otherwise");
  return EncodeRecordHeader(record.key, record.payload.shape(), BytesOf(record.payload));
}

Status CheckPayload(const KvPayload& payload, const RecordSizes& sizes) {
  if (Checksum64(payload.data(), payload.bytes()) == sizes.payload_checksum) return {};
  return Fail(ErrorCode::kCorrupt, "KV record: the payload's checksum is wrong");
}

struct OpenRecord {
  std::unique_ptr<Fd> fd;
  RecordSizes sizes;
  RecordKey key;
};

Result<OpenRecord> OpenRecordFile(const fs::path& path) {
  OpenRecord opened;
  // Not blocking: a pipe in its place would have us wait for somebody who writes into it.
  opened.fd = std::make_unique<Fd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int fd = opened.fd->fd;
  struct stat st {};
  if (fd < 0 || ::fstat(fd, &st) != 0) return tl::unexpected<Error>(ErrnoError(errno, "open", path));
  if (!S_ISREG(st.st_mode)) return Fail(ErrorCode::kCorrupt, "KV record: not a regular file");
  const auto file_bytes = static_cast<uint64_t>(st.st_size);
  std::array<char, kFirstReadBytes> first;
  const size_t first_bytes = std::min<uint64_t>(kFirstReadBytes, file_bytes);
  TRY(ReadExactly(fd, first.data(), first_bytes, 0, path));
  TRY_ASSIGN(opened.sizes, DecodeRecordSizes({first.data(), first_bytes}, file_bytes));
  if (opened.sizes.header_bytes <= first_bytes) {
    TRY_ASSIGN(opened.key, DecodeRecordKey({first.data(), opened.sizes.header_bytes}, opened.sizes));
    return opened;
  }
  std::string header(opened.sizes.header_bytes, '\0');
  TRY(ReadExactly(fd, header.data(), header.size(), 0, path));
  TRY_ASSIGN(opened.key, DecodeRecordKey(header, opened.sizes));
  return opened;
}

}  // namespace

RecordId RecordKey::Id() const {
  return Hasher()
      .Str(name_space)
      .Str(fact_id)
      .U32(content_version)
      .Ids(token_ids)
      .Digest(model_key)
      .U32(static_cast<uint32_t>(encoding))
      .Digest(calibration_id)
      .Digest(window_digest)
      .Finish();
}

void KvPayload::Free::operator()(uint16_t* p) const {
  if (owner == nullptr) GivePayloadBuffer(p, bytes);
}

KvPayload::KvPayload(const KvShape& shape, uint32_t tokens)
    : shape_(shape),
      tokens_(tokens),
      data_(static_cast<uint16_t*>(TakePayloadBuffer(bytes())), Free{bytes(), nullptr}) {}

// Nobody writes through a view: records are const behind their handles.
KvPayload::KvPayload(const KvShape& shape, uint32_t tokens, const uint16_t* elements, std::shared_ptr<const void> owner)
    : shape_(shape), tokens_(tokens), data_(const_cast<uint16_t*>(elements), Free{0, std::move(owner)}) {}

Status WriteRecordFile(const fs::path& path, const KvRecord& record, Durability durability) {
  TRY_ASSIGN(const std::string header, HeaderOf(record));
  const std::array<std::string_view, 2> pieces = {
      header, {reinterpret_cast<const char*>(record.payload.data()), record.payload.bytes()}};
  return WriteFileAtomic(path, pieces, durability);
}

Result<KvRecord> ReadRecordFile(const fs::path& path) {
  TRY_ASSIGN(OpenRecord opened, OpenRecordFile(path));
  TRY(MustBeExact(opened.sizes));
  KvRecord record{std::move(opened.key), KvPayload(opened.sizes.shape, opened.sizes.tokens)};
  TRY(ReadExactly(opened.fd->fd, record.payload.data(), record.payload.bytes(), opened.sizes.header_bytes, path));
  TRY(CheckPayload(record.payload, opened.sizes));
  return record;
}

Result<RecordInfo> ReadRecordInfo(const fs::path& path) {
  TRY_ASSIGN(OpenRecord opened, OpenRecordFile(path));
  return RecordInfo{std::move(opened.key), opened.sizes.shape};
}

Result<std::string> SerializeRecord(const KvRecord& record) {
  TRY_ASSIGN(std::string bytes, HeaderOf(record));
  bytes.append(reinterpret_cast<const char*>(record.payload.data()), record.payload.bytes());
  return bytes;
}

Result<KvRecord> ParseRecord(std::string_view bytes) {
  TRY_ASSIGN(const RecordSizes sizes, DecodeRecordSizes(bytes, bytes.size()));
  TRY_ASSIGN(RecordKey key, DecodeRecordKey(bytes.substr(0, sizes.header_bytes), sizes));
  TRY(MustBeExact(sizes));
  KvRecord record{std::move(key), KvPayload(sizes.shape, sizes.tokens)};
  std::memcpy(record.payload.data(), bytes.data() + sizes.header_bytes, sizes.payload_bytes);
  TRY(CheckPayload(record.payload, sizes));
  return record;
}

Result<std::string> SerializeRecordHeader(const KvRecord& record) { return HeaderOf(record); }

Result<std::string> SerializeRecordHeader(const RecordKey& key, const KvShape& shape,
                                          std::span<const std::byte> payload) {
  return EncodeRecordHeader(key, shape, payload);
}

Result<RecordView> ViewRecordBytes(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TRY_ASSIGN(const RecordSizes sizes, DecodeRecordSizes(text, text.size()));
  TRY_ASSIGN(RecordKey key, DecodeRecordKey(text.substr(0, sizes.header_bytes), sizes));
  return RecordView{std::move(key), sizes.shape, bytes.subspan(sizes.header_bytes), sizes.payload_checksum};
}

Result<KvRecord> ViewRecord(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  INFERSCALE_ASSERT(owner != nullptr && reinterpret_cast<uintptr_t>(bytes.data()) % kRecordAlignment == 0);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  TRY_ASSIGN(const RecordSizes sizes, DecodeRecordSizes(text, text.size()));
  TRY_ASSIGN(RecordKey key, DecodeRecordKey(text.substr(0, sizes.header_bytes), sizes));
  TRY(MustBeExact(sizes));
  const auto* elements = reinterpret_cast<const uint16_t*>(bytes.data() + sizes.header_bytes);
  return KvRecord{std::move(key), KvPayload(sizes.shape, sizes.tokens, elements, std::move(owner))};
}

}  // namespace inferscale
