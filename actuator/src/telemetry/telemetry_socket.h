// Telemetry that services send instead of writing it: one JSON object a datagram, to a Unix socket of the agent's. The
// kernel keeps ten of them (net.unix.max_dgram_qlen), so they are read as they come; a sender that does not wait is
// never held up. Whatever does not fit or makes no sense is counted and forgotten.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "telemetry/telemetry_line.h"

namespace osml {

class TelemetrySocket {
 public:
  // A telemetry line has some 300 bytes.
  static constexpr std::size_t longest_datagram = 8192;
  // That are kept of one interval: the newest.
  static constexpr std::size_t most_datagrams = 1024;
  // That are read in one interval; the rest waits in the kernel, and who sent it learns that there is no room.
  static constexpr std::size_t most_read = 4 * most_datagrams;

  // Binds with this mode. A socket file that a crash left is replaced; anything else at the path, or one that another
  // process listens on (Busy), is an error. The directory must exist, and not everybody may write to it.
  static Result<std::shared_ptr<TelemetrySocket>> open(const fs::path& path, unsigned mode);
  // Removes the file, where it is still this socket's.
  ~TelemetrySocket();
  TelemetrySocket(const TelemetrySocket&) = delete;
  TelemetrySocket& operator=(const TelemetrySocket&) = delete;

  struct Arrived {
    std::vector<TelemetrySample> lines;  // oldest first
    std::size_t ignored = 0;             // too long, or no JSON object
    double age_s = 0;                    // wall time since the newest line came
  };
  // Reads what has come; never waits.
  void receive();
  // What has come since the last call; never waits.
  Arrived take();

  [[nodiscard]] int fd() const { return fd_.get(); }

  Status set_mode(unsigned mode);
  // Whether the file at the path is still this socket's: nobody can send to one whose file was removed.
  [[nodiscard]] bool in_place() const;
  [[nodiscard]] const fs::path& path() const { return path_; }
  // Ever.
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t ignored() const { return ignored_; }

 private:
  TelemetrySocket(fs::path path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  fs::path path_;
  Fd fd_;
  std::uint64_t inode_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t ignored_ = 0;
  // Since the last take().
  std::deque<TelemetrySample> lines_;
  std::size_t read_ = 0;
  std::size_t ignored_since_ = 0;
  double newest_s_ = 0;  // monotonic_s() of the newest line
};

// The sockets of a process. They stay over a reload of the configuration: who has connected need not do so again, and
// what is sent meanwhile is not lost.
class TelemetrySockets {
 public:
  // `tries_again`: false in a dry run, which leaves a path alone for good where another process listened, or where the
  // file of its own socket was removed. The agent beside it may be gone only for a restart, and must find its sockets
  // free.
  explicit TelemetrySockets(bool tries_again = true);
  // Open already, or opened; anew where its file has gone meanwhile.
  Result<std::shared_ptr<TelemetrySocket>> get(const fs::path& given, unsigned mode);
  // Whether a socket may be made at this path; nothing is opened.
  static Status check(const fs::path& path);
  // Readable where datagrams have come: then receive() reads them.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  void receive();
  // None where it is not open.
  [[nodiscard]] const TelemetrySocket* find(const fs::path& path) const;
  // After a reload: those that nobody holds any more.
  void drop_unused();

 private:
  // Of a dry run: for as long as it lives.
  Error refuse(const fs::path& path, const std::string& why);

  Fd epoll_;
  bool tries_again_;
  std::map<fs::path, std::shared_ptr<TelemetrySocket>> open_;
  std::map<fs::path, Error> refused_;  // of a dry run: not tried again
};

}  // namespace osml
