#include "store/kv_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <random>

namespace inferscale {
namespace {

using kernels::kStampBytes;
using kernels::RecordStamp;

// Two streams in slow motion: what they are given runs when the test says, in any order that their waits allow.
class SlowMemory final : public ArenaMemory {
 public:
  explicit SlowMemory(uint64_t bytes) : memory_(*MakeHostArenaMemory(bytes)) {}
  ~SlowMemory() override { RunAll(); }

  uint8_t* base() const override { return memory_->base(); }
  uint64_t size() const override { return memory_->size(); }

  uint64_t MarkUses() override {
    marks_.push_back(compute_.given);
    return marks_.size();
  }
  Status WaitForUses(uint64_t mark) override {
    side_.Give({.after = marks_.at(mark - 1), .run = [] {}});
    return {};
  }
  Status ReadyForUses() override {
    compute_.Give({.after = side_.given, .run = [] {}});
    return {};
  }
  Status Load(std::span<const ArenaLoad> loads) override {
    if (std::exchange(fails, false)) return Fail(ErrorCode::kEngine, "no link");
    side_.Give({.run = [this, kept = std::vector<ArenaLoad>(loads.begin(), loads.end())] {
      ASSERT_TRUE(memory_->Load(kept));
    }});
    return {};
  }
  Status Wipe(uint64_t offset, uint64_t bytes) override {
    side_.Give({.run = [this, offset, bytes] { ASSERT_TRUE(memory_->Wipe(offset, bytes)); }});
    return {};
  }
  Status Finish() override {
    RunAll();
    return {};
  }

  void Launch(std::function<void()> use) { compute_.Give({.run = std::move(use)}); }
  // One step of one stream, if there is one that can go on.
  bool Run(bool side_first) {
    return side_first ? side_.Run(compute_.done) || compute_.Run(side_.done)
                      : compute_.Run(side_.done) || side_.Run(compute_.done);
  }
  void RunAll() {
    while (Run(true)) {
    }
    EXPECT_TRUE(side_.steps.empty() && compute_.steps.empty()) << "a deadlock";
  }

  bool fails = false;  // the next Load does

 private:
  struct Step {
    uint64_t after = 0;  // steps of the other stream
    std::function<void()> run;
  };
  struct Stream {
    std::deque<Step> steps;
    uint64_t given = 0, done = 0;
    void Give(Step step) {
      steps.push_back(std::move(step));
      ++given;
    }
    bool Run(uint64_t other_done) {
      if (steps.empty() || steps.front().after > other_done) return false;
      steps.front().run();
      steps.pop_front();
      ++done;
      return true;
    }
  };
  std::unique_ptr<ArenaMemory> memory_;
  Stream side_, compute_;
  std::vector<uint64_t> marks_;
};

// A record in host memory, its bytes told by its number and version.
struct HostRecord {
  RecordStamp stamp;
  RecordStamp origin;
  std::vector<uint64_t> words;

  HostRecord(uint64_t number, uint64_t version, uint64_t bytes) : words(bytes / 8) {
    static uint64_t generation = 0;
    stamp = {{number, ~number}, version, ++generation};
    origin = stamp;
    for (size_t i = 0; i < words.size(); ++i) words[i] = number * 1'000'003 + version * 7 + i;
  }
  ArenaRecord Record() const {
    return {stamp, reinterpret_cast<const uint8_t*>(words.data()), words.size() * 8, &origin};
  }
  bool IsAt(const ArenaSlot& slot) const {
    return *slot.stamp == stamp && std::memcmp(slot.payload, words.data(), words.size() * 8) == 0;
  }
};

constexpr uint64_t kSlab = kArenaSlabBytes;
constexpr uint64_t kFull = kSlab - kStampBytes;  // payload that fills a slab

class KvArenaTest : public ::testing::Test {
 protected:
  void Make(uint64_t slabs) {
    auto memory = std::make_unique<SlowMemory>(slabs * kSlab);
    memory_ = memory.get();
    arena_ = std::make_unique<KvArena>(std::move(memory));
  }
  ArenaLease Acquire(const std::vector<const HostRecord*>& records) {
    std::vector<ArenaRecord> asked;
    for (const HostRecord* record : records) asked.push_back(record->Record());
    Result<ArenaLease> lease = arena_->Acquire(asked);
    EXPECT_TRUE(lease.has_value());
    return lease ? std::move(*lease) : ArenaLease();
  }
  bool Has(const HostRecord& record) {
    const uint64_t hits = arena_->stats().hits;
    Acquire({&record});
    return arena_->stats().hits > hits;
  }
  bool AllZero() {
    memory_->RunAll();
    return std::all_of(memory_->base(), memory_->base() + memory_->size(), [](uint8_t byte) { return byte == 0; });
  }

  // A record that is there as long as the arena may copy it.
  HostRecord& Host(uint64_t number, uint64_t version, uint64_t bytes) {
    return host_.emplace_back(number, version, bytes);
  }

  std::deque<HostRecord> host_;
  SlowMemory* memory_ = nullptr;
  std::unique_ptr<KvArena> arena_;
};

TEST_F(KvArenaTest, LoadsOnceAndKeeps) {
  Make(8);
  const HostRecord &a = Host(1, 1, kFull), &b = Host(2, 1, 3 * kSlab - kStampBytes);
  const uint8_t* place = nullptr;
  {
    const ArenaLease lease = Acquire({&a, &b, &a});
    memory_->RunAll();
    ASSERT_EQ(lease.slots().size(), 3u);
    EXPECT_TRUE(a.IsAt(lease.slots()[0]) && b.IsAt(lease.slots()[1]));
    EXPECT_EQ(lease.slots()[0].payload, lease.slots()[2].payload);
    EXPECT_EQ(arena_->stats().pinned_bytes, 4 * kSlab);
    place = lease.slots()[1].payload;
  }
  EXPECT_EQ(Acquire({&b}).slots()[0].payload, place);
  const ArenaStats stats = arena_->stats();
  EXPECT_EQ(stats.misses, 2u);
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(stats.records, 2u);
  EXPECT_EQ(stats.loaded_bytes, a.words.size() * 8 + b.words.size() * 8);
  EXPECT_EQ(stats.used_bytes, 4 * kSlab);
  EXPECT_EQ(stats.pinned_bytes, 0u);
}

TEST_F(KvArenaTest, TheLeastRecentlyUsedLeaves) {
  Make(4);
  for (uint64_t i = 0; i < 5; ++i) Host(i + 1, 1, kFull);
  for (int i = 0; i < 4; ++i) Acquire({&host_[i]});
  Acquire({&host_[0]});
  Acquire({&host_[4]});
  EXPECT_EQ(arena_->stats().evicted, 1u);
  for (const int there : {0, 2, 3, 4}) EXPECT_TRUE(Has(host_[there])) << there;
  EXPECT_FALSE(Has(host_[1]));
}

TEST_F(KvArenaTest, PinnedRecordsStayAndTheRestIsRefused) {
  Make(3);
  const HostRecord &a = Host(1, 1, kFull), &b = Host(2, 1, kFull), &c = Host(3, 1, kFull);
  const HostRecord& wide = Host(4, 1, 2 * kSlab - kStampBytes);
  const ArenaLease first = Acquire({&a});
  Acquire({&b});
  const ArenaLease third = Acquire({&c});
  const ArenaLease refused = Acquire({&wide, &a});
  EXPECT_EQ(refused.slots()[0].payload, nullptr);
  EXPECT_NE(refused.slots()[1].payload, nullptr);
  EXPECT_EQ(arena_->stats().refused, 1u);
  EXPECT_EQ(arena_->stats().evicted, 0u) << "evicted in vain";
  EXPECT_TRUE(Has(b));
}

TEST_F(KvArenaTest, EvictedBytesAreOverwrittenWhenTheLastUseIsOver) {
  Make(4);
  const HostRecord& a = Host(1, 1, kFull);
  int right = 0;
  {
    const ArenaLease lease = Acquire({&a});
    memory_->Launch([&, slot = lease.slots()[0]] { right += a.IsAt(slot); });
    EXPECT_FALSE(*arena_->Evict(a.stamp.id)) << "a lease has it";
    EXPECT_EQ(arena_->stats().records, 0u);
    memory_->Launch([&, slot = lease.slots()[0]] { right += a.IsAt(slot); });
  }
  EXPECT_TRUE(AllZero());
  EXPECT_EQ(right, 2);
  Acquire({&a});
  EXPECT_TRUE(*arena_->Evict(a.stamp.id));
  EXPECT_TRUE(AllZero());
  EXPECT_TRUE(*arena_->Evict(a.stamp.id)) << "not there";
}

TEST_F(KvArenaTest, AnotherVersionTakesThePlace) {
  Make(4);
  const HostRecord &old = Host(1, 1, kFull), &now = Host(1, 2, kFull);
  Acquire({&old});
  const ArenaLease lease = Acquire({&now});
  memory_->RunAll();
  EXPECT_TRUE(now.IsAt(lease.slots()[0]));
  EXPECT_EQ(arena_->stats().records, 1u);
  EXPECT_EQ(arena_->stats().used_bytes, kSlab);
}

TEST_F(KvArenaTest, AChangedOriginIsNeverStamped) {
  Make(4);
  HostRecord& a = Host(1, 1, kFull);
  const ArenaLease lease = Acquire({&a});
  ++a.origin.generation;  // the host memory is used again before the copy begins
  memory_->RunAll();
  EXPECT_EQ(*lease.slots()[0].stamp, RecordStamp());
}

TEST_F(KvArenaTest, FailedLoadsLeaveNothing) {
  Make(4);
  const HostRecord &a = Host(1, 1, kFull), &b = Host(2, 1, kFull);
  Acquire({&a});
  memory_->fails = true;
  const ArenaRecord both[] = {a.Record(), b.Record()};
  EXPECT_FALSE(arena_->Acquire(both));
  EXPECT_EQ(arena_->stats().records, 1u);
  EXPECT_EQ(arena_->stats().pinned_bytes, 0u);
  EXPECT_TRUE(Has(a));
  EXPECT_FALSE(Has(b));
}

TEST_F(KvArenaTest, RefusesBadRecords) {
  Make(4);
  const HostRecord& a = Host(1, 1, kFull);
  for (const auto& break_it : std::initializer_list<std::function<void(ArenaRecord&)>>{
           [](ArenaRecord& r) { r.payload = nullptr; }, [](ArenaRecord& r) { r.payload += 8; },
           [](ArenaRecord& r) { r.bytes = 0; }, [](ArenaRecord& r) { r.bytes -= 8; },
           [](ArenaRecord& r) { r.stamp.generation = 0; }, [](ArenaRecord& r) { r.bytes = uint64_t{1} << 40; }}) {
    ArenaRecord record = a.Record();
    break_it(record);
    EXPECT_FALSE(arena_->Acquire({&record, 1}));
  }
  EXPECT_EQ(arena_->stats().misses, 0u);
}

// Random requests against the contents that every launch must see when it runs, with the streams as far apart as their
// waits allow. With a wait left out, launches read foreign bytes.
TEST_F(KvArenaTest, EveryLaunchReadsItsRecords) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Make(24);
    host_.clear();
    std::deque<HostRecord>& records = host_;
    for (uint64_t i = 0; i < 30; ++i) Host(i + 1, 1, 16 + random() % (4 * kSlab) / 16 * 16);
    std::deque<ArenaLease> held;
    int launches = 0, right = 0;
    for (int step = 0; step < 200; ++step) {
      std::vector<const HostRecord*> asked;
      for (uint32_t i = 0; i < 1 + random() % 4; ++i) asked.push_back(&records[random() % records.size()]);
      ArenaLease lease = Acquire(asked);
      for (size_t i = 0; i < asked.size(); ++i) {
        if (lease.slots()[i].payload == nullptr) continue;
        ++launches;
        memory_->Launch([&right, slot = lease.slots()[i], want = *asked[i]] { right += want.IsAt(slot); });
      }
      if (random() % 3 == 0) held.push_back(std::move(lease));
      if (held.size() > 2 || (!held.empty() && random() % 4 == 0)) held.pop_front();
      if (random() % 10 == 0) {
        ASSERT_TRUE(arena_->Evict(records[random() % records.size()].stamp.id));
      }
      if (random() % 10 == 0) {
        memory_->RunAll();  // copies from where the old version is
        HostRecord& changed = records[random() % records.size()];
        changed = HostRecord(changed.stamp.id[0], changed.stamp.version + 1, changed.words.size() * 8);
      }
      ASSERT_LE(arena_->stats().used_bytes, 24 * kSlab);
      for (uint32_t i = random() % 6; i > 0; --i) memory_->Run(random() % 4 != 0);
    }
    held.clear();
    memory_->RunAll();
    EXPECT_EQ(right, launches) << seed;
    EXPECT_GT(arena_->stats().evicted, 20u);
    ASSERT_TRUE(*arena_->Clear());
    EXPECT_TRUE(AllZero()) << seed;
    EXPECT_EQ(arena_->stats().used_bytes, 0u);
    arena_.reset();
  }
}

}  // namespace
}  // namespace inferscale
