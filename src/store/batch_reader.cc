#include "store/batch_reader.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "store/read_ring.h"

namespace inferscale {

namespace {

// Rings kept between calls; making one costs 50 to 100 us. More are made when more calls come at once.
constexpr size_t kIdleRings = 4;

Status ReadPlainly(const ReadOp& op) {
  uint64_t at = op.offset;
  for (const std::span<std::byte> part : {op.head, op.body}) {
    TRY_ASSIGN(const size_t read, op.file->Read(at, part));
    if (read < part.size()) return Fail(ErrorCode::kNotFound, "KV segment: the file ends before this place");
    at += read;
  }
  return {};
}

int ThreadCount(int wanted) {
  if (wanted > 0) return wanted;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

BatchReader::BatchReader(int threads, bool io_uring) : pool_(ThreadCount(threads)) {
  if (!io_uring) return;
  std::unique_ptr<ReadRing> ring = ReadRing::Create();
  io_uring_ = ring != nullptr;
  if (ring) GiveRing(std::move(ring));
}

BatchReader::~BatchReader() = default;

std::unique_ptr<ReadRing> BatchReader::TakeRing() {
  if (!io_uring_) return nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<ReadRing> ring = std::move(idle_.back());
      idle_.pop_back();
      return ring;
    }
  }
  return ReadRing::Create();  // null when this process has too many: then as without
}

void BatchReader::GiveRing(std::unique_ptr<ReadRing> ring) {
  if (!ring->usable()) return;
  std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleRings) idle_.push_back(std::move(ring));
}

void BatchReader::ReadAll(std::span<ReadOp> ops, const std::function<void(size_t)>& done) {
  std::vector<bool> complete(ops.size(), false);
  // One read alone is as fast without.
  if (std::unique_ptr<ReadRing> ring = ops.size() > 1 ? TakeRing() : nullptr) {
    complete = ring->ReadAll(ops);
    GiveRing(std::move(ring));
  }
  const auto finish = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      ops[i].status = complete[i] ? Status{} : ReadPlainly(ops[i]);
      if (ops[i].status) done(i);
    }
  };
  if (ops.size() == 1) return finish(0, 1);
  pool_.ParallelFor(ops.size(), finish);
}

}  // namespace inferscale
