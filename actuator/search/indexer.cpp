#include "indexer.h"

#include <xapian.h>

#include <algorithm>
#include <fstream>

namespace osml::search {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDocumentBytes = 3000;
constexpr std::uintmax_t kLongestFile = 4U << 20U;

std::vector<fs::path> text_files(const fs::path& root) {
  std::vector<fs::path> found;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const auto& entry : fs::recursive_directory_iterator(root, options)) {
    if (entry.is_symlink() || !entry.is_regular_file() || entry.file_size() > kLongestFile) continue;
    const auto extension = entry.path().extension();
    if (extension == ".gz" || extension == ".png" || extension == ".pyc" || extension == ".so") continue;
    found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

// False for what is no text: an index of noise has no words that anybody asks for.
bool is_text(const std::string& text) { return !text.empty() && text.find('\0') == std::string::npos; }

class Writer {
 public:
  Writer(const fs::path& index, std::size_t most)
      : database_(index.string(), Xapian::DB_CREATE_OR_OVERWRITE), most_(most) {
    generator_.set_stemmer(Xapian::Stem("en"));
  }

  [[nodiscard]] bool full() const { return size_.documents >= most_; }

  void add(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    if (!is_text(text)) return;
    ++size_.files;
    for (std::size_t at = 0; at < text.size() && !full();) {
      const auto line_end = text.find('\n', std::min(at + kDocumentBytes, text.size()));
      const auto end = line_end == std::string::npos ? text.size() : line_end;
      add_document(file, text.substr(at, end - at));
      at = end + 1;
    }
  }

  IndexSize finish() {
    database_.commit();
    return size_;
  }

 private:
  void add_document(const fs::path& file, const std::string& text) {
    Xapian::Document document;
    generator_.set_document(document);
    generator_.index_text(text);
    document.set_data(file.string() + "\n" + text.substr(0, 160));
    database_.add_document(document);
    ++size_.documents;
  }

  Xapian::WritableDatabase database_;
  Xapian::TermGenerator generator_;
  std::size_t most_;
  IndexSize size_;
};

}  // namespace

IndexSize make_index(const fs::path& index, const std::vector<fs::path>& roots, std::size_t most_documents) {
  Writer writer(index, most_documents);
  for (const auto& root : roots) {
    for (const auto& file : text_files(root)) {
      if (writer.full()) return writer.finish();
      writer.add(file);
    }
  }
  return writer.finish();
}

}  // namespace osml::search
