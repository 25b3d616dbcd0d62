#include "store/hot_set.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "store/hot_set_reader.h"
#include "store/range_allocator.h"
#include "store/segment_store_test_util.h"

namespace inferscale {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

bool Holds(std::span<const std::byte> bytes, const std::string& text) {
  return bytes.size() == text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// All slots, by a map of our own: what is left of records that went would show here.
std::string Memory(const HotSet& set) {
  void* const map = ::mmap(nullptr, set.file_bytes(), PROT_READ, MAP_SHARED, set.descriptor(), 0);
  EXPECT_NE(map, MAP_FAILED);
  std::string all(static_cast<const char*>(map) + 4096, set.file_bytes() - 4096);
  ::munmap(map, set.file_bytes());
  return all;
}

TEST(RangeAllocatorTest, BehavesLikeAnArrayOfBytes) {
  constexpr uint64_t kSize = 200;
  RangeAllocator ranges(kSize);
  std::vector<bool> taken(kSize, false);
  std::map<uint64_t, uint64_t> held;
  std::mt19937_64 random(1);
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const uint64_t bytes = 1 + random() % 30;
      // The naive best fit: each maximal free run, the shortest that holds it, the first among equals.
      std::optional<std::pair<uint64_t, uint64_t>> best;
      uint64_t free = 0, largest = 0;
      for (uint64_t at = 0; at < kSize;) {
        uint64_t end = at;
        while (end < kSize && !taken[end]) ++end;
        free += end - at;
        largest = std::max(largest, end - at);
        if (end - at >= bytes && (!best || end - at < best->first)) best = {end - at, at};
        at = end + 1;
      }
      ASSERT_EQ(ranges.free_bytes(), free);
      ASSERT_EQ(ranges.largest(), largest);
      const auto got = ranges.Take(bytes);
      ASSERT_EQ(got.has_value(), best.has_value());
      if (!got) continue;
      ASSERT_EQ(*got, best->second);
      held[*got] = bytes;
      std::fill_n(taken.begin() + static_cast<long>(*got), bytes, true);
    } else if (!held.empty()) {
      auto at = held.begin();
      std::advance(at, random() % held.size());
      ranges.Give(at->first, at->second);
      std::fill_n(taken.begin() + static_cast<long>(at->first), at->second, false);
      held.erase(at);
    }
  }
}

TEST(HotSetTest, FindsWhatWasPut) {
  auto set = *HotSet::Create(1 << 20);
  EXPECT_FALSE(set->Find(1).has_value());
  const std::string text = TestRecord(1, 5000);
  {
    const HotPin pin = *set->Put(1, 3, BytesOf(text));
    EXPECT_TRUE(Holds(pin.bytes(), text));
    EXPECT_EQ(pin.slot().version, 3u);
    EXPECT_EQ(pin.slot().generation % 2, 0u);
    EXPECT_EQ(pin.slot().offset % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pin.bytes().data()) % 64, 0u);
  }
  const auto pin = set->Find(1);
  ASSERT_TRUE(pin.has_value());
  EXPECT_TRUE(Holds(pin->bytes(), text));
  const HotSetStats stats = set->stats();
  EXPECT_EQ(stats.hits, 1u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.used_bytes, 8192u);
  EXPECT_EQ(stats.pinned_bytes, 8192u);
}

TEST(HotSetTest, RefusesWhatCannotBe) {
  EXPECT_EQ(HotSet::Create(4095).error().code, ErrorCode::kInvalidArgument);
  auto set = *HotSet::Create(8192);
  EXPECT_EQ(set->Put(1, 1, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(set->Reserve(1, 1, 8192 - 63).error().code, ErrorCode::kTooLarge);
  const HotPin a = *set->Put(1, 1, BytesOf("a"));
  const HotPin b = *set->Put(2, 1, BytesOf("b"));
  EXPECT_EQ(set->Put(3, 1, BytesOf("c")).error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(set->stats().refused, 1u);
  void* const map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, set->descriptor(), 0);
  EXPECT_EQ(map, MAP_FAILED) << "others can only read";
}

// A request that cannot succeed evicts nothing.
TEST(HotSetTest, NothingIsEvictedInVain) {
  auto set = *HotSet::Create(3 * 4096);
  (void)*set->Put(1, 1, BytesOf("a"));
  const HotPin middle = *set->Put(2, 1, BytesOf("b"));
  (void)*set->Put(3, 1, BytesOf("c"));
  EXPECT_EQ(set->Reserve(4, 1, 5000).error().code, ErrorCode::kNoSpace);
  EXPECT_TRUE(set->Find(1).has_value() && set->Find(3).has_value());
}

TEST(HotSetTest, EvictWipesAtOnceOrWithTheLastPin) {
  auto set = *HotSet::Create(1 << 20);
  const std::string a = TestRecord(1, 9000), b = TestRecord(2, 9000);
  (void)*set->Put(1, 1, BytesOf(a));
  auto pin = std::make_optional(*set->Put(2, 1, BytesOf(b)));
  EXPECT_TRUE(set->Evict(1));
  EXPECT_EQ(Memory(*set).find(a.substr(4000, 16)), std::string::npos);
  EXPECT_FALSE(set->Evict(2));
  EXPECT_FALSE(set->Find(2).has_value());
  EXPECT_TRUE(Holds(pin->bytes(), b)) << "a pin keeps its bytes";
  EXPECT_FALSE(set->Evict(2)) << "still not gone";
  pin.reset();
  EXPECT_TRUE(set->Evict(2));
  EXPECT_EQ(Memory(*set).find(b.substr(4000, 16)), std::string::npos);
  EXPECT_EQ(set->stats().used_bytes, 0u);
}

TEST(HotSetTest, AFillIsSeenByNobodyUntilItIsPublished) {
  auto set = *HotSet::Create(1 << 20);
  const std::string text = TestRecord(5, 6000);
  const auto fill_in = [&](HotFill& fill) { std::memcpy(fill.bytes().data(), text.data(), text.size()); };
  {
    HotFill fill = *set->Reserve(5, 1, text.size());
    fill_in(fill);
    EXPECT_FALSE(set->Find(5).has_value());
  }
  EXPECT_EQ(Memory(*set).find(text.substr(100, 16)), std::string::npos) << "a dropped fill is wiped";
  HotFill first = *set->Reserve(5, 1, text.size()), second = *set->Reserve(5, 1, text.size());
  fill_in(first);
  fill_in(second);
  const HotPin a = first.Publish(), b = second.Publish();
  EXPECT_EQ(a.slot(), b.slot()) << "both fills of one record end in one slot";
  EXPECT_EQ(set->stats().records, 1u);
  // Forgotten while it was read from the disk: not to be found, and wiped when its user is done.
  HotFill late = *set->Reserve(6, 1, text.size());
  EXPECT_FALSE(set->Evict(6));
  fill_in(late);
  {
    const HotPin pin = late.Publish();
    EXPECT_TRUE(Holds(pin.bytes(), text));
    EXPECT_FALSE(set->Find(6).has_value());
  }
  EXPECT_TRUE(set->Evict(6));
}

// The naive model: what was evicted by whom is asked of the set, all else is a map.
TEST(HotSetTest, RandomHistoryKeepsEveryByteInItsPlace) {
  auto set = *HotSet::Create(64 * 4096);
  std::mt19937_64 random(7);
  std::map<uint64_t, std::string> content;  // of every record ever put
  std::vector<std::pair<uint64_t, HotPin>> pins;
  std::map<uint64_t, bool> evicted;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t dice = random() % 10, record = 1 + random() % 60;
    if (dice < 4 && !evicted.contains(record)) {
      std::string& text = content[record];
      if (text.empty()) text = TestRecord(record, 1 + random() % 30'000);
      auto pin = set->Put(record, static_cast<uint32_t>(record), BytesOf(text));
      if (pin && random() % 4 == 0) pins.emplace_back(record, std::move(*pin));
    } else if (dice < 8) {
      auto pin = set->Find(record);
      if (pin) {
        ASSERT_TRUE(content.contains(record) && !evicted.contains(record));
        ASSERT_TRUE(Holds(pin->bytes(), content[record]));
        if (random() % 4 == 0) pins.emplace_back(record, std::move(*pin));
      }
    } else if (dice == 8 && !pins.empty()) {
      const size_t i = random() % pins.size();
      ASSERT_TRUE(Holds(pins[i].second.bytes(), content[pins[i].first]));
      std::swap(pins[i], pins.back());
      pins.pop_back();
    } else if (random() % 50 == 0 && evicted.size() < 30) {
      bool pinned = false;
      for (const auto& [pinned_record, pin] : pins) pinned |= pinned_record == record;
      ASSERT_EQ(set->Evict(record), !pinned);
      evicted[record] = true;
    }
    while (pins.size() > 8) pins.erase(pins.begin());
    const HotSetStats stats = set->stats();
    ASSERT_LE(stats.used_bytes, stats.budget_bytes);
    ASSERT_LE(stats.pinned_bytes, stats.used_bytes);
  }
  EXPECT_GT(set->stats().evicted, 100u);
  pins.clear();
  const std::string memory = Memory(*set);
  for (const auto& [record, text] : content) {
    if (text.size() < 16) continue;
    EXPECT_EQ(memory.find(text.substr(0, 16)) != std::string::npos, set->Find(record).has_value()) << record;
  }
  EXPECT_TRUE(set->Clear());
  EXPECT_EQ(set->stats().used_bytes, 0u);
  // Nothing is left in any page but slot headers, of which only the generation is not zero.
  const std::string wiped = Memory(*set);
  for (size_t at = 0; at < wiped.size(); ++at) {
    const size_t in_page = at % 4096;
    if (in_page < 24 || in_page >= 32) {
      ASSERT_EQ(wiped[at], 0) << at;
    }
  }
}

TEST(HotSetTest, TheLeastRecentlyUsedGoesFirst) {
  auto set = *HotSet::Create(3 * 4096);
  for (uint64_t record = 1; record <= 3; ++record) (void)*set->Put(record, 1, BytesOf("x"));
  (void)set->Find(1);
  (void)*set->Put(4, 1, BytesOf("x"));
  EXPECT_TRUE(set->Find(1).has_value());
  EXPECT_FALSE(set->Find(2).has_value());
}

TEST(HotSetTest, ManyThreadsSeeWholeRecords) {
  auto set = *HotSet::Create(24 * 4096);
  std::atomic<uint64_t> wrong{0}, seen{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 1500; ++i) {
        const uint64_t record = 1 + random() % 40;
        const std::string text = TestRecord(record, 100 + record * 150);
        auto pin = set->Find(record);
        if (!pin && random() % 8 != 0) {
          auto put = set->Put(record, 1, BytesOf(text));
          if (put) pin.emplace(std::move(*put));
        }
        if (pin) {
          ++seen;
          wrong += !Holds(pin->bytes(), text);
        }
        pin.reset();
        if (random() % 16 == 0) set->Evict(record);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(seen, 1000u);
}

struct Shared {                    // by both processes, in a map of their own
  std::atomic<uint64_t> sequence;  // odd while the slot below is written
  HotSlot slot;
  std::atomic<uint64_t> copies, refused, foreign;
  std::atomic<bool> stop;
};

// The child: copies the slots it is told of, and looks whether each byte is that record's.
[[noreturn]] void ReadInChild(int descriptor, Shared& shared, bool checked) {
  auto reader = *HotSetReader::Map(descriptor);
  std::vector<std::byte> into;
  while (!shared.stop) {
    const uint64_t before = shared.sequence.load();
    const HotSlot slot = shared.slot;
    if (before % 2 != 0 || shared.sequence.load() != before || slot.bytes == 0) continue;
    into.resize(slot.bytes);
    bool copied = false;
    if (checked) {
      copied = reader->Copy(slot, into).has_value();
    } else {
      std::memcpy(into.data(), reader->BytesOf(slot).data(), slot.bytes);
      copied = true;
    }
    if (!copied) {
      ++shared.refused;
      continue;
    }
    ++shared.copies;
    for (const std::byte b : into) {
      if (b != std::byte(slot.record)) {
        ++shared.foreign;
        break;
      }
    }
  }
  ::_exit(0);
}

// Leases are broken on purpose: slots are reused while the child copies them. Returns what the child saw.
void ReuseUnderAReader(bool checked, Shared& shared) {
  auto set = *HotSet::Create(16 * 4096);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ReadInChild(set->descriptor(), shared, checked);
  std::mt19937_64 random(1);
  std::string text;
  for (int i = 0; i < 60'000 || (i < 3'000'000 && shared.copies < 1000); ++i) {
    const uint64_t record = 1 + random() % 250;
    text.assign(1 + random() % 60'000, static_cast<char>(record));
    const HotPin pin = *set->Put(record, 1, BytesOf(text));
    ++shared.sequence;
    shared.slot = pin.slot();
    ++shared.sequence;
  }
  shared.stop = true;
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

Shared& NewShared() {
  void* const map = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(map, MAP_FAILED);
  return *static_cast<Shared*>(map);
}

TEST(HotSetReaderTest, AnotherProcessNeverSeesForeignBytes) {
  Shared& shared = NewShared();
  ReuseUnderAReader(true, shared);
  EXPECT_GT(shared.copies, 100u);
  EXPECT_GT(shared.refused, 0u) << "no slot was reused under a copy: the test proved nothing";
  EXPECT_EQ(shared.foreign, 0u);
  ::munmap(&shared, sizeof(Shared));
}

TEST(HotSetReaderTest, WithoutTheCheckItDoes) {
  Shared& shared = NewShared();
  ReuseUnderAReader(false, shared);
  EXPECT_GT(shared.foreign, 0u) << "the test above could not fail";
  ::munmap(&shared, sizeof(Shared));
}

TEST(HotSetReaderTest, RefusesWhatIsNoHotSetAndSlotsThatCannotBe) {
  const int fd = ::memfd_create("no-hot-set", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  EXPECT_EQ(HotSetReader::Map(fd).error().code, ErrorCode::kCorrupt);
  ::close(fd);
  auto set = *HotSet::Create(8192);
  const HotPin pin = *set->Put(1, 1, BytesOf("abc"));
  const auto reader = *HotSetReader::Map(set->descriptor());
  std::vector<std::byte> into(3);
  EXPECT_TRUE(reader->Copy(pin.slot(), into));
  HotSlot slot = pin.slot();
  slot.offset = 0;
  EXPECT_EQ(reader->Copy(slot, into).error().code, ErrorCode::kInvalidArgument);
  slot = pin.slot();
  slot.bytes = UINT64_MAX;
  EXPECT_EQ(reader->Copy(slot, into).error().code, ErrorCode::kInvalidArgument);
  for (const auto change :
       {+[](HotSlot& s) { ++s.record; }, +[](HotSlot& s) { ++s.version; }, +[](HotSlot& s) { s.generation += 2; }}) {
    slot = pin.slot();
    change(slot);
    EXPECT_EQ(reader->Copy(slot, into).error().code, ErrorCode::kMismatch);
  }
}

}  // namespace
}  // namespace inferscale
