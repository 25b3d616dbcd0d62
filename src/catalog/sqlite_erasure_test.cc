// What was deleted is in no file of the catalog and nowhere in the process.
#include <gmock/gmock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <set>

#include "base/clear_freed.h"
#include "base/memory_scan_test_util.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

class SqliteErasureTest : public CatalogTest {
 protected:
  std::string Word() {
    std::string word;
    for (int i = 0; i < 12; ++i) word += static_cast<char>('a' + random_() % 26);
    return word;
  }
  std::string Files() const {
    std::string all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      std::ifstream in(entry.path(), std::ios::binary);
      all.append(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  }
  // How many of the needles are there. One pass: candidates by their first three bytes.
  static size_t Found(const std::string& files, const std::vector<std::string>& needles) {
    const auto key = [](const char* at) {
      return size_t{static_cast<uint8_t>(at[0])} << 16 | size_t{static_cast<uint8_t>(at[1])} << 8 |
             static_cast<uint8_t>(at[2]);
    };
    std::vector<std::vector<const std::string*>> by_key(1 << 24);
    for (const std::string& needle : needles) by_key[key(needle.data())].push_back(&needle);
    std::set<const std::string*> found;
    for (size_t i = 0; i + 3 <= files.size(); ++i)
      for (const std::string* needle : by_key[key(files.data() + i)])
        if (files.compare(i, needle->size(), *needle) == 0) found.insert(needle);
    return found.size();
  }
  static std::string VectorBytes(std::string_view text) {
    const std::vector<float> vector = SearchOf(text).vector;
    return {reinterpret_cast<const char*>(vector.data()), vector.size() * sizeof(float)};
  }
  void RunHistory(int steps);

  std::mt19937_64 random_{1};
  std::vector<std::string> gone_;  // words and vectors
  std::vector<std::string> kept_;
};

// Additions and deletions in random order, so that pages split, merge and are used again.
void SqliteErasureTest::RunHistory(int steps) {
  struct Live {
    std::string id;
    std::vector<std::string> words;
  };
  std::vector<Live> live;
  for (int step = 0; step < steps; ++step) {
    if (random_() % 3 > 0 || live.empty()) {
      Live fact{"f" + std::to_string(step), {Word()}};
      NewFact given = FactOf(fact.id, "it says " + fact.words[0]);
      if (step % 10 == 0) {
        fact.words.push_back(Word());
        given = LongFact(fact.id, {"one " + fact.words[0], "two " + fact.words[1]});
      }
      if (step % 7 == 0) {
        fact.words.push_back(Word());
        given.turn = "t" + std::to_string(step);
        const std::vector<NewTurn> turn = {{given.turn, {}, "Ada", "said " + fact.words.back(), {}}};
        ASSERT_TRUE(catalog().PutTurns(ns_, turn));
      }
      Add(ns_, {given});
      live.push_back(fact);
    } else if (random_() % 3 == 0) {
      Live& fact = live[random_() % live.size()];
      fact.words.push_back(Word());  // the old words stay in the history
      ASSERT_TRUE(catalog().UpdateFact(ns_, fact.id, {.content = ContentOf("now " + fact.words.back())}));
      gone_.push_back(VectorBytes("it says " + fact.words[0]));
    } else {
      const size_t place = random_() % live.size();
      Delete(ns_, {live[place].id});
      gone_.insert(gone_.end(), live[place].words.begin(), live[place].words.end());
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(place));
    }
  }
  for (const Live& fact : live) kept_.insert(kept_.end(), fact.words.begin(), fact.words.end());
}

TEST_F(SqliteErasureTest, NoFileHasWhatWasDeleted) {
  ASSERT_NO_FATAL_FAILURE(RunHistory(4000));
  EXPECT_GT(gone_.size(), 1000u);
  EXPECT_GT(Found(Files(), gone_), 20u) << "until it is scrubbed, the log has it";
  ASSERT_TRUE(catalog().Scrub());
  const std::string files = Files();
  EXPECT_EQ(Found(files, gone_), 0u);
  EXPECT_EQ(Found(files, kept_), kept_.size());
  ASSERT_TRUE(catalog().DeleteAllFacts(ns_));
  ASSERT_TRUE(catalog().Scrub());
  EXPECT_EQ(Found(Files(), kept_), 0u);
  EXPECT_THAT(Findings(), testing::IsEmpty());
}

// Keys are the application's words, and nobody would ever forget them.
TEST_F(SqliteErasureTest, NoFileHasTheWordsOfAnIdempotencyKey) {
  const std::string key = Word() + Word();
  Add(ns_, {FactOf("f", "a fact with " + key)}, {"another " + key, 0});
  EXPECT_EQ(Found(Files(), {"another " + key}), 0u);
  EXPECT_EQ(Found(Files(), {key}), 1u) << "as the fact has it";
  EXPECT_TRUE(Add(ns_, {FactOf("f", "a fact with " + key)}, {"another " + key, 0}).replayed);
}

// What secure_delete is for: the same history without it.
TEST_F(SqliteErasureTest, WithoutOverwritingTheFileKeepsIt) {
  Open({.secure_delete = false});
  ASSERT_NO_FATAL_FAILURE(RunHistory(1000));
  ASSERT_TRUE(catalog().Scrub());
  EXPECT_GT(Found(Files(), gone_), 20u);
}

// Larger than what is freed and used again at once.
std::string LongText(const std::string& word) {
  std::string filler;
  for (int i = 0; i < 500; ++i) filler += "filler ";
  return filler + word + " " + filler;
}

TEST_F(SqliteErasureTest, FreedStringsAreOverwritten) {
  if (!FreedHeapIsCleared()) GTEST_SKIP() << "the sanitizer keeps freed memory";
  const HiddenBytes word = HiddenBytes::Word();
  std::string shown = word.Show();
  auto text = std::make_unique<std::string>(LongText(shown));
  const std::unique_ptr<char, decltype(&::free)> control(static_cast<char*>(::malloc(10'000)), ::free);
  ::memcpy(control.get() + 5000, shown.data(), shown.size());
  Wipe(shown);
  EXPECT_EQ(word.CountInMemory(), 2u) << "the string's and the control's";
  text.reset();
  EXPECT_EQ(word.CountInMemory(), 1u) << "the control's";
}

// In a process of its own, since this one has what other tests left behind. Exits with 0 when all is well.
int LookIntoMemory(const fs::path& folder) {
  auto catalog = OpenSqliteCatalog(folder).value();
  if (!catalog->UseEmbedder(kTestEmbedder)) return 10;
  const NamespaceId ns = catalog->OpenNamespace("x").value();
  const HiddenBytes word = HiddenBytes::Word(), old_word = HiddenBytes::Word(), turn_word = HiddenBytes::Word();
  std::string vector;
  {
    std::string shown = word.Show(), old_shown = old_word.Show(), turn_shown = turn_word.Show();
    const SearchData search = SearchOf(LongText(shown));
    vector.assign(reinterpret_cast<const char*>(search.vector.data()), search.vector.size() * sizeof(float));
    NewFact fact = FactOf("f", LongText(old_shown));
    fact.turn = "t";
    const std::vector<NewTurn> turn = {{"t", 0, "Ada", LongText(turn_shown), {}}};
    if (!catalog->PutTurns(ns, turn) || !catalog->AddFacts(ns, {&fact, 1}, {"key", 0})) return 11;
    for (int i = 0; i < 50; ++i) {
      NewFact other = FactOf("g" + std::to_string(i), "other " + std::to_string(i));
      if (!catalog->AddFacts(ns, {&other, 1}, {})) return 12;
    }
    if (!catalog->UpdateFact(ns, "f", {.content = ContentOf(LongText(shown))})) return 13;
    for (std::string* text : {&shown, &old_shown, &turn_shown}) Wipe(*text);
  }
  const HiddenBytes hidden_vector = HiddenBytes::Of(vector);
  const HiddenBytes* const all[] = {&word, &old_word, &turn_word, &hidden_vector};
  // Read by several connections, and sorted.
  (void)catalog->ScanFacts(ns, {.with_vector = true, .by_order = true}, [&](const ScanRow&) {
    (void)catalog->History(ns, "f");
    return true;
  });
  for (const HiddenBytes* bytes : all)
    if (bytes->CountInMemory() == 0) return 20;  // SQLite's pages have them
  const std::string id = "f";
  if (!catalog->DeleteFacts(ns, {&id, 1}) || !catalog->Scrub()) return 14;
  int status = 0;
  for (int i = 0; i < 4; ++i)
    if (all[i]->CountInMemory() > 0) status |= 32 << (i > 2 ? 2 : i);
  return status;
}

TEST_F(SqliteErasureTest, NoMemoryHasWhatWasDeleted) {
  if (!FreedHeapIsCleared()) GTEST_SKIP() << "the sanitizer keeps freed memory";
  Close();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(LookIntoMemory(folder_));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "bits: 32 word, 64 former word, 128 turn or vector; less: see the code";
}

}  // namespace
}  // namespace inferscale
