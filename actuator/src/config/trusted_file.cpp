#include "config/trusted_file.h"

#include "base/trust.h"

namespace osml {

namespace {

// Whatever is wrong with a file that the operator named, it is the operator's to mend.
Error as_input(Error error, const std::string& what) {
  error.kind = ErrorKind::Input;
  return error.wrap(what);
}

}  // namespace

Result<std::string> read_trusted(const fs::path& path, const std::string& what) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    return Error{ErrorKind::Input, what + " " + path.string() + ": no such file, expected a regular file"};
  }
  if (Status trusted = refuse_untrusted(path, what); !trusted) return trusted.error();
  auto text = read_text(path);
  if (!text) return as_input(text.error(), what);
  return text;
}

}  // namespace osml
