#include "index/keyword_search.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "base/limits.h"

namespace inferscale {
namespace {

using Terms = std::vector<std::string>;

// Texts as lists of words; fact i has seq 10 * i + 3.
class Corpus final : public PostingSource {
 public:
  void Add(Terms words) {
    const FactSeq seq = 10 * texts_.size() + 3;
    words_ += words.size();
    for (const std::string& word : words) ++index_[word][seq];
    texts_.push_back(std::move(words));
  }
  void Hide(FactSeq seq) { hidden_.insert(seq); }

  uint64_t facts() const override { return texts_.size(); }
  uint64_t words() const override { return words_; }
  Result<std::vector<TermPostings>> Postings(std::span<const std::string> terms, size_t cap) override {
    caps_.push_back(cap);
    std::vector<TermPostings> all;
    for (const std::string& term : terms) {
      TermPostings found;
      const auto list = index_.find(term);
      if (list != index_.end()) {
        found.facts = list->second.size();
        found.too_common = found.facts > cap;
        if (!found.too_common)
          for (const auto& [seq, count] : list->second) found.postings.push_back({seq, count});
      }
      all.push_back(std::move(found));
    }
    return all;
  }
  std::optional<uint32_t> Words(FactSeq fact) const override {
    if (hidden_.contains(fact)) return std::nullopt;
    return static_cast<uint32_t>(texts_[fact / 10].size());
  }

  const std::vector<Terms>& texts() const { return texts_; }
  const std::vector<size_t>& caps() const { return caps_; }  // of each call of Postings

 private:
  std::vector<Terms> texts_;
  uint64_t words_ = 0;
  std::map<std::string, std::map<FactSeq, uint32_t>> index_;
  std::set<FactSeq> hidden_;
  std::vector<size_t> caps_;
};

// Words w0, w1, …: the first ones often, as in a language.
std::string RandomWord(std::mt19937& random, int vocabulary) {
  const double u = std::uniform_real_distribution<double>(0.0, 1.0)(random);
  return "w" + std::to_string(static_cast<int>(std::pow(vocabulary, u)) - 1);
}

Corpus RandomCorpus(std::mt19937& random, size_t facts, int vocabulary) {
  Corpus corpus;
  for (size_t i = 0; i < facts; ++i) {
    Terms words(1 + random() % 20);
    for (std::string& word : words) word = RandomWord(random, vocabulary);
    corpus.Add(i > 0 && random() % 8 == 0 ? corpus.texts()[random() % i] : words);  // some alike: ties
  }
  return corpus;
}

Terms RandomQuestion(std::mt19937& random, int vocabulary) {
  std::set<std::string> terms;
  const size_t count = 1 + random() % 3;  // RandomWord gives four different ones at least
  while (terms.size() < count) terms.insert(RandomWord(random, vocabulary));
  if (random() % 4 == 0) terms.insert("unknown");
  return {terms.begin(), terms.end()};
}

// FTS5 with one corpus alone.
class Fts5 {
 public:
  explicit Fts5(const Corpus& corpus) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    db_.reset(db);
    Run("CREATE VIRTUAL TABLE t USING fts5(words, tokenize='unicode61')");
    for (size_t i = 0; i < corpus.texts().size(); ++i)
      Run("INSERT INTO t(rowid, words) VALUES(" + std::to_string(10 * i + 3) + ", '" + Join(corpus.texts()[i], " ") +
          "')");
  }

  // bm25() is negative there, better ones first.
  std::vector<std::pair<FactSeq, double>> Search(const Terms& terms) {
    std::vector<std::pair<FactSeq, double>> hits;
    const auto take = [](void* out, int, char** values, char**) {
      static_cast<std::vector<std::pair<FactSeq, double>>*>(out)->emplace_back(std::stoull(values[0]),
                                                                               -std::stod(values[1]));
      return 0;
    };
    const std::string sql = "SELECT rowid, format('%!.17g', bm25(t)) FROM t WHERE t MATCH '" + Join(terms, " OR ") +
                            "' ORDER BY bm25(t), rowid";
    EXPECT_EQ(sqlite3_exec(db_.get(), sql.c_str(), take, &hits, nullptr), SQLITE_OK) << sqlite3_errmsg(db_.get());
    return hits;
  }

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
  };
  static std::string Join(const Terms& terms, const std::string& between) {
    std::string all;
    for (const std::string& term : terms) all += (all.empty() ? "" : between) + term;
    return all;
  }
  void Run(const std::string& sql) {
    ASSERT_EQ(sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db_.get());
  }

  std::unique_ptr<sqlite3, Close> db_;
};

void ExpectAsFts5(const std::vector<KeywordHit>& got, const std::vector<std::pair<FactSeq, double>>& want) {
  ASSERT_EQ(got.size(), want.size());
  std::map<FactSeq, double> by_fact(want.begin(), want.end());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(by_fact.contains(got[i].fact));
    const double score = by_fact[got[i].fact];
    ASSERT_NEAR(got[i].score, score, 2e-6 * score + 1e-12) << "place " << i;
    // The same place, unless scores differ by less than a float can tell: FTS5 sums in another order.
    if (got[i].fact != want[i].first) {
      ASSERT_NEAR(want[i].second, score, 2e-6 * score + 1e-12) << "place " << i;
    }
  }
}

TEST(KeywordSearchTest, RanksAsFts5Does) {
  std::mt19937 random(5);
  size_t compared = 0;
  for (const size_t facts : {1u, 2u, 3u, 10u, 60u, 100u, 100u}) {  // nothing is common yet
    for (const int vocabulary : {5, 40, 400}) {
      Corpus corpus = RandomCorpus(random, facts, vocabulary);
      Fts5 fts5(corpus);
      for (int q = 0; q < 30; ++q) {
        const Terms question = RandomQuestion(random, vocabulary);
        const auto hits = SearchKeywords(corpus, question);
        ASSERT_TRUE(hits);
        ExpectAsFts5(*hits, fts5.Search(question));
        if (HasFatalFailure()) FAIL() << facts << " facts, vocabulary " << vocabulary << ", question " << q;
        compared += hits->size();
      }
    }
  }
  EXPECT_GT(compared, 10'000u);
}

TEST(KeywordSearchTest, CommonTermsAreLeftOutUnlessNothingElseIsLeft) {
  std::mt19937 random(6);
  Corpus corpus = RandomCorpus(random, 1000, 3000);
  Fts5 fts5(corpus);
  const auto facts_with = [&](const std::string& term) {
    return std::count_if(corpus.texts().begin(), corpus.texts().end(),
                         [&](const Terms& text) { return std::find(text.begin(), text.end(), term) != text.end(); });
  };
  ASSERT_GT(facts_with("w0"), 400);  // more than a quarter
  ASSERT_GT(facts_with("w1"), 250);
  ASSERT_LT(facts_with("w9"), 250);
  ExpectAsFts5(*SearchKeywords(corpus, Terms{"w0", "w9", "w1", "w50"}), fts5.Search({"w9", "w50"}));
  EXPECT_EQ(corpus.caps(), std::vector<size_t>{250});
  // Both are common: then both count.
  ExpectAsFts5(*SearchKeywords(corpus, Terms{"w0", "w1", "unknown"}), fts5.Search({"w0", "w1"}));
  EXPECT_EQ(corpus.caps(), (std::vector<size_t>{250, 250, SIZE_MAX}));
  EXPECT_TRUE(SearchKeywords(corpus, Terms{"unknown"})->empty());
}

TEST(KeywordSearchTest, OfCommonTermsTheRarestFitTheLimit) {
  // Lists that are only counted: three terms of 90,000, 150,000 and 140,000 facts; two of them are more than the limit.
  class Large final : public PostingSource {
   public:
    uint64_t facts() const override { return 200'000; }
    uint64_t words() const override { return 200'000; }
    Result<std::vector<TermPostings>> Postings(std::span<const std::string> terms, size_t cap) override {
      std::vector<TermPostings> all;
      for (const std::string& term : terms) {
        TermPostings found{term == "a" ? 150'000u : term == "b" ? 90'000u : 140'000u, false, {}};
        found.too_common = found.facts > cap;
        if (!found.too_common) {
          asked.insert(term);
          found.postings = {{1, 1}};
        }
        all.push_back(found);
      }
      return all;
    }
    std::optional<uint32_t> Words(FactSeq) const override { return 1; }
    std::set<std::string> asked;
  };
  static_assert(90'000 < limits::kCommonPostings && 90'000 + 140'000 > limits::kCommonPostings);
  Large source;
  EXPECT_EQ(SearchKeywords(source, Terms{"a", "b", "c"})->size(), 1u);
  EXPECT_EQ(source.asked, std::set<std::string>{"b"});
}

TEST(KeywordSearchTest, WhatMustNotBeFoundIsNotAndChangesNothingElse) {
  std::mt19937 random(8);
  Corpus corpus = RandomCorpus(random, 80, 30);
  const Terms question = {"w1", "w3", "w7"};
  std::vector<KeywordHit> want = *SearchKeywords(corpus, question);
  ASSERT_GT(want.size(), 10u);
  for (size_t i = 0; i < want.size(); i += 3) corpus.Hide(want[i].fact);
  size_t place = 0;
  std::erase_if(want, [&](const KeywordHit&) { return place++ % 3 == 0; });
  const std::vector<KeywordHit> got = *SearchKeywords(corpus, question);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].fact, want[i].fact);
    EXPECT_EQ(got[i].score, want[i].score);
    EXPECT_EQ(got[i].share, want[i].share);
  }
}

TEST(KeywordSearchTest, ShareSaysHowMuchOfTheQuestionIsThere) {
  Corpus corpus;
  corpus.Add({"red", "house", "lake"});
  corpus.Add({"red", "car", "race"});
  for (int i = 0; i < 20; ++i) corpus.Add({"x", "y", "z"});
  const auto share = [&](const Terms& terms) { return SearchKeywords(corpus, terms)->at(0).share; };
  EXPECT_NEAR(share({"house", "lake"}), 1.0f, 1e-6);  // all of it, average length
  EXPECT_NEAR(share({"house", "race"}), 0.5f, 1e-6);  // equally rare
  EXPECT_GT(share({"house", "red"}), share({"house", "race"}));
  EXPECT_LT(share({"house", "unknown"}), 0.5f);  // and the unknown one is the rarest
  Corpus twice = corpus;
  twice.Add({"lake", "lake", "lake"});
  EXPECT_EQ(SearchKeywords(twice, Terms{"lake"})->at(0).share, 1.0f);  // never more
}

TEST(KeywordSearchTest, TiesBySeqAndEmptyInputs) {
  Corpus corpus;
  for (int i = 0; i < 50; ++i) corpus.Add({"same", "words"});
  for (int i = 0; i < 60; ++i) corpus.Add({"other"});
  const auto hits = SearchKeywords(corpus, Terms{"same"});
  ASSERT_EQ(hits->size(), 50u);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ((*hits)[i].fact, 10 * i + 3);
  EXPECT_TRUE(SearchKeywords(corpus, Terms{})->empty());
  Corpus empty;
  EXPECT_TRUE(SearchKeywords(empty, Terms{"same"})->empty());
  const auto too_many = SearchKeywords(corpus, Terms(limits::kTermsPerQuery + 1, "w"));
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kTooLarge);
}

// Lists and counts are read one after the other: a fact may come or go in between.
TEST(KeywordSearchTest, CountsThatDoNotAgreeGiveFiniteScores) {
  class Torn final : public PostingSource {
   public:
    uint64_t facts() const override { return 2; }
    uint64_t words() const override { return 0; }
    Result<std::vector<TermPostings>> Postings(std::span<const std::string> terms, size_t) override {
      return std::vector<TermPostings>(terms.size(), {5, false, {{1, 1}, {2, 1}, {3, 2}, {4, 1}, {5, 1}}});
    }
    std::optional<uint32_t> Words(FactSeq fact) const override { return fact == 4 ? 0 : 7; }
  };
  Torn source;
  const auto hits = SearchKeywords(source, Terms{"a", "b"});
  ASSERT_EQ(hits->size(), 5u);
  for (const KeywordHit& hit : *hits) EXPECT_TRUE(std::isfinite(hit.score) && hit.share > 0 && hit.share <= 1);
}

}  // namespace
}  // namespace inferscale
