// A catalog of two namespaces with something of everything, all that its plain calls return, and copies of it with a
// byte changed.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "catalog/catalog_test_util.h"

namespace inferscale {

// A text of 9,000 bytes and more.
std::string Long(const std::string& word);

// All that a reader gets to see, by name.
struct Contents {
  std::map<std::string, std::string> texts;          // facts and turns with all their fields, settings
  std::map<std::string, std::set<std::string>> old;  // words of the history
  std::map<std::string, std::string> derived;        // vectors, postings, counts, usable records
  bool noticed = false;                              // an error, or damage that was counted
};

class DamageTest : public CatalogTest {
 protected:
  void Fill();
  static void ReadNamespace(Catalog& catalog, const std::string& name, Contents& all);
  Contents Read(Catalog& catalog) const;
  std::string Bytes() const;  // of the database
  // Opens a copy with one byte changed; null when that is refused.
  std::unique_ptr<Catalog> OpenFlipped(const std::string& bytes, size_t at, char mask);
  static void ExpectNothingWrong(const Contents& found, const Contents& truth);
  // What is not said to be damaged is all there.
  static void ExpectNothingMissing(const Contents& found, const Contents& truth);
  // Notes errors; kNotFound is none.
  template <class T>
  static bool Usable(const Result<T>& result, Contents& all) {
    if (!result && result.error().code != ErrorCode::kNotFound) all.noticed = true;
    return result.has_value();
  }
  std::vector<std::string> names_ = {"user:ada", "user:adb"};
};

}  // namespace inferscale
