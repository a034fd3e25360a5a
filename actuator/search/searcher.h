// One thread's view of an index: what matches a query best, as a page of JSON.
#pragma once

#include <xapian.h>

#include <string>

namespace osml::search {

class Searcher {
 public:
  // Throws Xapian::Error where there is no index. Xapian's databases are not shared between threads: one each.
  explicit Searcher(const std::string& index);
  // {"matches": estimate, "results": [{"score": percent, "file": name, "text": beginning}]}, at most ten.
  std::string answer(const std::string& query);

 private:
  Xapian::Database database_;
  Xapian::Enquire enquire_;
  Xapian::QueryParser parser_;
};

}  // namespace osml::search
