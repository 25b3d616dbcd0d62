// Reading records from a segment store.
#include <array>
#include <string>
#include <utility>

#include "base/hash.h"
#include "store/segment_store_impl.h"

namespace inferscale {

namespace {

Error NotThere(const char* why) { return {ErrorCode::kNotFound, std::string("KV store: ") + why}; }

// Whether an entry, read as it is now, is the record that was asked for.
Status CheckEntry(std::span<const std::byte> head, std::span<const std::byte> body, const SegmentHeader& segment,
                  const ReadRequest& request) {
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  TRY_ASSIGN(const EntryHeader entry, DecodeEntryHeader(bytes, segment, request.location.offset));
  if (entry.record != request.record) return tl::unexpected<Error>(NotThere("another record is at this place"));
  if (entry.state == EntryState::kDestroyed) return tl::unexpected<Error>(NotThere("the record was destroyed"));
  if (entry.bytes != request.location.bytes)
    return Fail(ErrorCode::kCorrupt, "KV store: the record has another length than was asked for");
  if (Checksum64(body.data(), body.size()) != entry.checksum)
    return Fail(ErrorCode::kCorrupt, "KV store: the record's checksum is wrong");
  return {};
}

Status CheckRequest(const ReadRequest& request) {
  const SegmentLocation& at = request.location;
  if (at.bytes == 0 || at.bytes > limits::kRecordBytes || at.offset % kSegmentBlockBytes != 0 ||
      at.offset < kSegmentBlockBytes || at.offset > uint64_t{INT64_MAX} - 2 * limits::kRecordBytes)
    return Fail(ErrorCode::kCorrupt, "KV store: no record can be at this place");
  if (!request.into.empty() && request.into.size() != at.bytes)
    return Fail(ErrorCode::kInvalidArgument, "KV store: the buffer is not as long as the record");
  return {};
}

}  // namespace

// Requests that can be read, with what has to stay in place meanwhile. [requests that can be read]
struct SegmentStoreImpl::Batch {
  std::vector<size_t> request;
  std::vector<SegmentPtr> segment;
  std::vector<RecordBytes> body;
  std::vector<EntryHeaderBytes> head;
  std::vector<ReadOp> ops;
  std::vector<Status> checked;
};

std::vector<Result<RecordBytes>> SegmentStoreImpl::ReadBatch(std::span<const ReadRequest> requests) {
  std::vector<Result<RecordBytes>> results;
  results.reserve(requests.size());
  Batch batch;
  for (size_t i = 0; i < requests.size(); ++i) {
    // Each result is an error until it is read.
    const ReadRequest& request = requests[i];
    Status usable = i < limits::kReadBatch ? CheckRequest(request)
                                           : Fail(ErrorCode::kTooLarge, "KV store: too many records in one read");
    SegmentPtr segment = usable ? Find(request.location.segment) : nullptr;
    results.emplace_back(tl::unexpected<Error>(usable ? NotThere("its segment is gone") : std::move(usable).error()));
    if (!segment) continue;
    batch.request.push_back(i);
    batch.segment.push_back(std::move(segment));
    batch.body.push_back(request.into.empty() ? RecordBytes(request.location.bytes) : RecordBytes(request.into));
  }
  const size_t count = batch.request.size();
  if (count == 0) return results;
  batch.head.resize(count);
  batch.checked.resize(count);
  for (size_t i = 0; i < count; ++i) {
    batch.ops.push_back({.file = &batch.segment[i]->file(),
                         .offset = requests[batch.request[i]].location.offset,
                         .head = std::as_writable_bytes(std::span(batch.head[i])),
                         .body = batch.body[i].bytes(),
                         .status = {}});
  }
  reader_.ReadAll(batch.ops, [&](size_t i) {
    const ReadOp& op = batch.ops[i];
    batch.checked[i] = CheckEntry(op.head, op.body, batch.segment[i]->header(), requests[batch.request[i]]);
  });
  for (size_t i = 0; i < count; ++i) {
    Status& status = batch.ops[i].status ? batch.checked[i] : batch.ops[i].status;
    Result<RecordBytes>& result = results[batch.request[i]];
    if (status) {
      result = std::move(batch.body[i]);
    } else {
      result = tl::unexpected<Error>(std::move(status).error());
    }
  }
  return results;
}

}  // namespace inferscale
