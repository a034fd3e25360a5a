// Follows a file of lines that somebody else writes: every look brings only what was appended since the one before. A
// half-written last line waits until it is complete; of a file that was rotated (other inode) the rest of the old one
// counts, then the new one from its start, and of one that was truncated or written over the newest line.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace osml {

class LineFollower {
 public:
  explicit LineFollower(fs::path path) : path_(std::move(path)) {}

  struct Look {
    std::vector<std::string> lines;  // complete ones, oldest first; of very many the newest
    bool first = false;              // of this file since the agent follows it: nobody knows of which time its line is
    bool again = false;              // the newest line of the look before, in a file whose time has changed since
    bool too_long = false;           // a line without an end was dropped
    timespec written{};              // as the file system says
  };
  // The first look has the newest line only: what is before it is history. So has one at a file that was written over.
  Result<Look> look();

 private:
  // What the file that is there now is to the one of the look before.
  enum class Now {
    First,      // there was none
    Continues,  // the same, and perhaps longer
    Touched,    // its time changed and its length did not: written over with the same bytes, or given a time
    Rewritten,  // the same file with other bytes where this has read already, or fewer
    Anew,       // another one
  };
  [[nodiscard]] Now now(const struct stat& facts) const;
  // The file that is at the path now, with its facts before anything is read.
  Result<struct stat> open_current();
  // What was written to the file since the look before, where it was moved away.
  void read_rest();
  void start_at(std::uint64_t offset);
  Status read_appended(std::uint64_t size);
  // Moves the complete lines of pending_.
  void take_lines(Look& look);

  fs::path path_;
  Fd fd_;
  std::uint64_t inode_ = 0;  // of the file that offset_ is about; 0 before the first look
  std::uint64_t device_ = 0;
  std::uint64_t offset_ = 0;
  timespec written_{};
  std::string tail_;     // the last bytes before offset_
  std::string pending_;  // what was read behind the last newline
  std::string newest_;   // line
  bool skip_to_newline_ = false;
  bool written_over_ = false;  // and no whole line of it was there yet
};

}  // namespace osml
