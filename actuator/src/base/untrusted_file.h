// Files that an unprivileged service can make and change, opened by an agent that is root: whatever lies there must not
// make it wait, read a device, or read a file that the service itself may not.
#pragma once

#include <sys/stat.h>

#include "base/files.h"

namespace osml {

struct UntrustedFile {
  Fd fd;
  struct stat facts {};
};

// Regular files only, without waiting. Symbolic links are refused, but for those of root (or of the agent's own user)
// on the way to the directory, such as /var/run.
Result<UntrustedFile> open_untrusted(const fs::path& path);
// errno of such a path as an error. Unit and pod take from root the right to read what modes forbid, so a shell of root
// can read a file that the agent cannot: the error says what to do.
Error untrusted_error(int code, const fs::path& path);
// The first `most` bytes of such a file.
struct UntrustedText {
  std::string text;
  uid_t owner = 0;
  timespec written{};  // as its owner may set it
};
Result<UntrustedText> read_untrusted(const fs::path& path, std::size_t most);

}  // namespace osml
