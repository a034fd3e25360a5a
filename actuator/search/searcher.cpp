#include "searcher.h"

#include <nlohmann/json.hpp>

namespace osml::search {

constexpr unsigned kResults = 10;

Searcher::Searcher(const std::string& index) : database_(index), enquire_(database_) {
  parser_.set_database(database_);
  parser_.set_stemmer(Xapian::Stem("en"));
  parser_.set_stemming_strategy(Xapian::QueryParser::STEM_SOME);
  parser_.set_default_op(Xapian::Query::OP_OR);
}

std::string Searcher::answer(const std::string& query) {
  // Words only: operators would make a query such as "foo AND" an error.
  enquire_.set_query(parser_.parse_query(query, 0));
  const Xapian::MSet matches = enquire_.get_mset(0, kResults);
  nlohmann::json results = nlohmann::json::array();
  for (auto match = matches.begin(); match != matches.end(); ++match) {
    const std::string data = match.get_document().get_data();
    const auto newline = data.find('\n');
    results.push_back({{"score", match.get_percent()},
                       {"file", data.substr(0, newline)},
                       {"text", newline == std::string::npos ? "" : data.substr(newline + 1)}});
  }
  const nlohmann::json page = {{"matches", matches.get_matches_estimated()}, {"results", std::move(results)}};
  // The indexed text may be in any encoding.
  return page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace osml::search
