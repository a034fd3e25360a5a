// Makes an index out of plain text files: a document for every few paragraphs, so that short files and long ones count
// alike. The same files give the same index.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace osml::search {

struct IndexSize {
  std::size_t files = 0;
  std::size_t documents = 0;
};

// Text files below `roots`, in the order of their names, until there are `most_documents`. Links are not followed.
// Throws Xapian::Error or std::filesystem::filesystem_error.
IndexSize make_index(const std::filesystem::path& index, const std::vector<std::filesystem::path>& roots,
                     std::size_t most_documents);

}  // namespace osml::search
