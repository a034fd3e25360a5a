// osml-search: a search server on Xapian for the lab of real services, and the maker of its index.
#include <CLI/CLI.hpp>
#include <iostream>

#include "http.h"
#include "indexer.h"
#include "searcher.h"

int main(int argc, char** argv) {
  CLI::App app{"Search server of the lab: `index` makes an index out of text files, `serve` answers /search?q=WORDS."};
  app.require_subcommand(1);
  std::string index;
  std::vector<std::filesystem::path> roots;
  std::size_t most = 60'000;
  unsigned port = 0;
  unsigned threads = 4;
  auto* make = app.add_subcommand("index", "Make an index");
  make->add_option("--index", index, "Folder of the index; an index in it is replaced")->required();
  make->add_option("--most", most, "Documents at most")->check(CLI::Range(1, 10'000'000));
  make->add_option("roots", roots, "Folders with text files")->required()->check(CLI::ExistingDirectory);
  auto* serve = app.add_subcommand("serve", "Answer queries on 127.0.0.1");
  serve->add_option("--index", index, "Folder of the index")->required();
  serve->add_option("--port", port, "TCP port")->required()->check(CLI::Range(1, 65535));
  serve->add_option("--threads", threads, "Connections at once, a thread each")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  try {
    if (make->parsed()) {
      const auto size = osml::search::make_index(index, roots, most);
      std::cout << size.documents << " documents of " << size.files << " files\n";
      return 0;
    }
    const osml::search::Searcher probe(index);  // a missing index is said before the first request
    return osml::search::serve(port, threads, [&index] {
      const auto searcher = std::make_shared<osml::search::Searcher>(index);
      return [searcher](const std::string& target) -> osml::search::Reply {
        const auto query = osml::search::query_of(target);
        if (!query) return {404, "{}"};
        return {200, searcher->answer(*query)};
      };
    });
  } catch (const Xapian::Error& error) {
    std::cerr << "osml-search: index '" << index << "': " << error.get_msg() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "osml-search: " << error.what() << '\n';
    return 1;
  }
}
