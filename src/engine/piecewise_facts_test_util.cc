#include "engine/piecewise_facts_test_util.h"

#include <array>
#include <cstdio>
#include <random>

namespace inferscale {

namespace {

using Words = std::vector<std::string>;

const Words kNames = {"Maria",  "Jonas", "Aïsha",   "Bjørn", "Chloë", "Dmitri", "Emeka", "Farah", "Grzegorz",
                      "Hoa",    "Ines",  "Jürgen",  "Kenji", "Léa",   "Mehmet", "Nkechi", "Olga", "Priya",
                      "Quentin", "Rosa", "Søren",   "Tomás", "Uma",   "Veronika", "O'Brien", "小林", "Ольга", "سارة"};
const Words kPlaces = {"Porto", "Köln", "São Paulo", "New York", "Łódź", "Kyōto", "東京", "Αθήνα", "Київ",
                       "القاهرة", "Reykjavík", "Hà Nội", "서울", "दिल्ली", "กรุงเทพฯ", "תל אביב"};
const Words kThings = {"a grey cat named Miso", "two concert tickets", "an e-bike (used)",
                       "a 1/72 model of the Apollo 11 lander", "kimchi & soju", "a copy of \"Dune\"",
                       "a bouldering membership", "sourdough starter", "🎸 lessons",
                       "a vegan cookbook", "the blue sofa", "a C++ course", "a passport renewal form"};
const Words kOpinions = {"loves", "can't stand", "is allergic to", "has just started with", "is saving up for",
                         "gave up on", "dreams of", "is proud of"};
const Words kEnds = {".", "!", "", " :)", "…", " (again).", "?", "。", "\"", ")"};

class Maker {
 public:
  std::string Fact() {
    const std::string text = Sentence() + Pick(kEnds);
    switch (random_() % 4) {
      case 0: return text;
      case 1: return "[" + Date() + "] " + text;
      case 2: return "On " + Date() + ", " + text;
      default: return text + " (" + Date() + ")";
    }
  }

 private:
  const std::string& Pick(const Words& words) { return words[random_() % words.size()]; }
  std::string Number(uint32_t limit) { return std::to_string(random_() % limit); }
  std::string Date() {
    char date[16];
    std::snprintf(date, sizeof(date), "20%02u-%02u-%02u", unsigned(10 + random_() % 16), unsigned(1 + random_() % 12),
                  unsigned(1 + random_() % 28));
    return date;
  }

  std::string Sentence() {
    const std::string& who = Pick(kNames);
    switch (random_() % 8) {
      case 0: return who + " bought " + Pick(kThings) + " for " + Number(900) + "." + Number(90) + " euros";
      case 1: return who + " moved from " + Pick(kPlaces) + " to " + Pick(kPlaces);
      case 2: return who + "'s phone number is +" + Number(99) + " " + Number(10'000) + "-" + Number(1'000'000);
      case 3: return who + " " + Pick(kOpinions) + " " + Pick(kThings);
      case 4: return "\"I'll be in " + Pick(kPlaces) + " at " + Number(24) + ":" + Number(60) + "\", said " + who;
      case 5: return who + " and " + Pick(kNames) + " met " + Pick(kNames) + " in " + Pick(kPlaces);
      case 6: return Number(400) + " people came to " + who + "'s party in " + Pick(kPlaces);
      default: return who + ": " + Pick(kOpinions) + " " + Pick(kPlaces) + "; " + Number(100) + "% sure";
    }
  }

  std::mt19937 random_{20230508};
};

}  // namespace

std::vector<std::string> SampleFacts(size_t count) {
  Maker maker;
  std::vector<std::string> facts;
  while (facts.size() < count) facts.push_back(maker.Fact());
  return facts;
}

bool BordersDiffer(const Tokenizer& tokenizer, std::string_view before, std::string_view text) {
  Tokens pieces = tokenizer.Text(before);
  const Tokens behind = tokenizer.Text(text);
  pieces.insert(pieces.end(), behind.begin(), behind.end());
  return pieces != tokenizer.Text(std::string(before) + std::string(text));
}

}  // namespace inferscale
