// Random filters on random facts, against an evaluator that walks the filter's JSON for each fact and knows times as a
// table of spellings only.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/instant.h"
#include "index/filter.h"

namespace inferscale {
namespace {

using nlohmann::json;

constexpr int64_t kHour = 3'600'000'000, kDay = 24 * kHour;
constexpr int64_t kBase = 1'709'251'200'000'000;  // 2024-03-01T00:00:00Z

struct Spelling {
  const char* text;
  int64_t begin, end;
};
const Spelling kTimes[] = {
    {"2024-03-01", kBase, kBase + kDay},
    {"2024-03-02", kBase + kDay, kBase + 2 * kDay},
    {"2024-02-29", kBase - kDay, kBase},
    {"2024-03-01T12:00:00Z", kBase + 12 * kHour, kBase + 12 * kHour + 1},
    {"2024-03-01T12:00:00", kBase + 12 * kHour, kBase + 12 * kHour + 1},
    {"2024-03-01T20:00:00+08:00", kBase + 12 * kHour, kBase + 12 * kHour + 1},
    {"2024-03-01T00:00:00Z", kBase, kBase + 1},
    {"2024-03-02T08:00:00+08:00", kBase + kDay, kBase + kDay + 1},
};

struct RandomFact {
  json fields;  // text fields and metadata; times in microseconds, as numbers
  std::string metadata;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  size_t Below(size_t n) { return random_() % n; }
  template <class T>
  T Pick(const std::vector<T>& of) {
    return of[Below(of.size())];
  }

  RandomFact Fact() {
    RandomFact fact;
    for (const char* field : {"id", "user_id", "agent_id", "run_id", "app_id", "turn"})
      fact.fields[field] = Pick<std::string>({"", "a", "b", "ab"});
    fact.fields["text"] = Pick<std::string>({"a", "Ab ba", "BA", ""});
    for (const char* field : {"created_at", "updated_at"}) fact.fields[field] = Instant();
    fact.fields["expires_at"] = Below(2) == 0 ? json() : json(Instant());
    fact.fields["date"] = Below(3) == 0 ? json() : json(kBase + static_cast<int64_t>(Below(3)) * kDay - kDay);
    json metadata = json::object();
    for (const char* key : {"k", "l", "m"})
      if (Below(4) != 0) metadata[key] = Scalar();
    if (Below(2) == 0) metadata["list"] = json::array({Scalar(), Scalar()});
    if (Below(2) == 0) metadata["in"] = {{"k", Scalar()}};
    fact.fields["metadata"] = metadata;
    fact.metadata = metadata.dump();
    return fact;
  }

  json Filter(int depth) {
    json filter = json::object();
    const size_t count = 1 + Below(2);
    for (size_t i = 0; i < count; ++i) {
      if (depth > 0 && Below(2) == 0) {
        json list = json::array();
        for (size_t child = 0; child < 1 + Below(3); ++child) list.push_back(Filter(depth - 1));
        filter[Pick<std::string>({"AND", "OR", "NOT"})] = list;
      } else if (Below(2) == 0) {
        filter[Pick<std::string>({"metadata.k", "l", "m", "metadata.list", "in.k", "metadata.nowhere"})] = Metadata();
      } else if (Below(2) == 0) {
        filter[Pick<std::string>({"created_at", "updated_at", "expires_at", "date"})] = Time();
      } else {
        filter[Pick<std::string>({"id", "user_id", "agent_id", "run_id", "app_id", "turn", "text"})] = Text();
      }
    }
    return filter;
  }

 private:
  int64_t Instant() { return kBase + Pick<int64_t>({-kDay, -1, 0, 1, 12 * kHour, kDay - 1, kDay, kDay + 1}); }
  json Scalar() { return Pick<json>({"a", "Ab", "b", 1, 2, 2.0, -1.5, true, nullptr, TimeText()}); }
  std::string TimeText() { return kTimes[Below(std::size(kTimes))].text; }

  json Text() {
    const std::string value = Pick<std::string>({"a", "b", "ab", "BA", ""});
    switch (Below(6)) {
      case 0:
        return value.empty() ? json("*") : json(value);
      case 1:
        return {{Pick<std::string>({"eq", "ne"}), Below(4) == 0 ? json() : json(value)}};
      case 2:
        return {{Pick<std::string>({"in", "nin"}), {value, "a", nullptr}}};
      case 3:
        return {{"in", json::array()}};
      default:
        return {{Pick<std::string>({"contains", "icontains"}), value}};
    }
  }
  json Time() {
    switch (Below(5)) {
      case 0:
        return TimeText();
      case 1:
        return "*";
      case 2:
        return {{Pick<std::string>({"in", "nin"}), {TimeText(), nullptr}}};
      case 3:
        return {{Pick<std::string>({"eq", "ne"}), Below(3) == 0 ? json() : json(TimeText())}};
      default:
        return {{Pick<std::string>({"gt", "gte"}), TimeText()}, {Pick<std::string>({"lt", "lte"}), TimeText()}};
    }
  }
  json Metadata() {
    switch (Below(5)) {
      case 0:
        return Scalar();
      case 1:
        return {{Pick<std::string>({"eq", "ne"}), Scalar()}};
      case 2:
        return {{Pick<std::string>({"in", "nin"}), {Scalar(), Scalar()}}};
      case 3:
        return {{"contains", Pick<json>({"a", "b", 2, true})}, {"icontains", "A"}};
      default:
        return {{Pick<std::string>({"gt", "gte", "lt", "lte"}), Pick<json>({"a", "b", 1, 1.5, TimeText()})}};
    }
  }

  std::mt19937 random_;
};

const Spelling* SpellingOf(const json& value) {
  for (const Spelling& time : kTimes)
    if (value == time.text) return &time;
  return nullptr;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

// One operator of the language on a value that the fact has: not null.
bool Naive(const json& has, const std::string& op, const json& wanted, const std::string& field) {
  const bool is_time = field == "created_at" || field == "updated_at" || field == "expires_at" || field == "date";
  if (is_time || (op[0] != 'e' && op[0] != 'i' && op != "contains" && SpellingOf(wanted) != nullptr)) {
    if (wanted.is_null()) return false;
    Spelling want = *SpellingOf(wanted);
    if (field == "date") {
      want.begin = (want.begin - kBase + kDay) / kDay * kDay + kBase - kDay;  // the day that it is on
      want.end = want.begin + kDay;
    }
    int64_t at = 0;
    if (is_time) {
      at = has.get<int64_t>();
    } else {
      const Spelling* spelling = SpellingOf(has);
      if (spelling == nullptr) return false;
      at = spelling->begin;
    }
    if (op == "gt") return at >= want.end;
    if (op == "gte") return at >= want.begin;
    if (op == "lt") return at < want.begin;
    if (op == "lte") return at < want.end;
    return at >= want.begin && at < want.end;
  }
  if (op == "eq") return has == wanted;
  if (op == "contains" || op == "icontains" || op == "in") {
    if (op == "in" && has == wanted) return true;
    if (has.is_array()) {
      for (const json& element : has)
        if (op == "icontains" ? element.is_string() && Lower(element) == Lower(wanted) : element == wanted) return true;
      return false;
    }
    if (op == "in" || !has.is_string() || !wanted.is_string()) return false;
    return op == "contains" ? has.get<std::string>().find(wanted.get<std::string>()) != std::string::npos
                            : Lower(has).find(Lower(wanted)) != std::string::npos;
  }
  if (has.is_number() != wanted.is_number() || has.is_string() != wanted.is_string()) return false;
  if (!has.is_number() && !has.is_string()) return false;
  return op == "gt" ? has > wanted : op == "gte" ? has >= wanted : op == "lt" ? has < wanted : has <= wanted;
}

json ValueOf(const json& fact, const std::string& field) {
  if (fact.contains(field)) return fact[field] == "" ? json() : fact[field];
  const std::string key = field.starts_with("metadata.") ? field.substr(9) : field;
  const json& metadata = fact["metadata"];
  if (key == "in.k") return metadata.contains("in") ? metadata["in"]["k"] : json();
  return metadata.contains(key) ? metadata[key] : json();
}

bool NaiveMatches(const json& fact, const json& filter);

bool NaiveCondition(const json& has, const std::string& op, const json& wanted, const std::string& field) {
  if (op == "ne") return !NaiveCondition(has, "eq", wanted, field);
  if (op == "nin") return !NaiveCondition(has, "in", wanted, field);
  if (op == "in") {
    for (const json& one : wanted)
      if (one.is_null() ? has.is_null() : !has.is_null() && Naive(has, "in", one, field)) return true;
    return false;
  }
  if (has.is_null()) return wanted.is_null();
  return !wanted.is_null() && Naive(has, op, wanted, field);
}

bool NaiveMatches(const json& fact, const json& filter) {
  for (const auto& [key, value] : filter.items()) {
    if (key == "AND" || key == "OR" || key == "NOT") {
      size_t holding = 0;
      for (const json& child : value) holding += NaiveMatches(fact, child) ? 1 : 0;
      if (key == "AND" ? holding < value.size() : key == "OR" ? holding == 0 : holding > 0) return false;
      continue;
    }
    const json has = ValueOf(fact, key);
    if (value == "*") {
      if (has.is_null()) return false;
    } else if (!value.is_object()) {
      if (!NaiveCondition(has, "eq", value, key)) return false;
    } else {
      for (const auto& [op, wanted] : value.items())
        if (!NaiveCondition(has, op, wanted, key)) return false;
    }
  }
  return true;
}

TEST(FilterPropertyTest, EqualsTheNaiveEvaluator) {
  Generator generator(2024);
  int matched = 0, compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const json filter = generator.Filter(3);
    const auto parsed = Filter::Parse(filter.dump());
    ASSERT_TRUE(parsed) << filter << parsed.error().message;
    for (int i = 0; i < 20; ++i) {
      const RandomFact random = generator.Fact();
      const auto text = [&](const char* field) {
        return std::string_view(random.fields[field].get_ref<const std::string&>());
      };
      FilterFact fact{text("id"),
                      text("text"),
                      text("user_id"),
                      text("agent_id"),
                      text("run_id"),
                      text("app_id"),
                      text("turn"),
                      random.fields["created_at"],
                      random.fields["updated_at"],
                      {},
                      {},
                      random.metadata};
      if (!random.fields["expires_at"].is_null()) fact.expires_us = random.fields["expires_at"].get<int64_t>();
      if (!random.fields["date"].is_null()) fact.date = DayOf(random.fields["date"].get<int64_t>());
      const bool want = NaiveMatches(random.fields, filter);
      ASSERT_EQ(parsed->Matches(fact), want) << filter << "\n" << random.fields;
      matched += want ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(matched, compared / 20);  // neither side says no to everything
  EXPECT_LT(matched, compared * 19 / 20);
}

}  // namespace
}  // namespace inferscale
