// Telemetry that services send instead of writing it: one JSON object a datagram, to a Unix socket of the agent's. The
// kernel keeps what came since the last interval; a sender that does not wait is never held up. Whatever does not fit
// or makes no sense is counted and forgotten.
#pragma once

#include <cstdint>
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
  // In one interval; the rest waits in the kernel, whose queue is bounded too.
  static constexpr std::size_t most_datagrams = 1024;

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
  };
  // What has come since the last call; never waits.
  Arrived take();

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
};

// The sockets of a process. They stay over a reload of the configuration: who has connected need not do so again, and
// what is sent meanwhile is not lost.
class TelemetrySockets {
 public:
  // Open already, or opened; anew where its file has gone meanwhile.
  Result<std::shared_ptr<TelemetrySocket>> get(const fs::path& given, unsigned mode);
  // None where it is not open.
  [[nodiscard]] const TelemetrySocket* find(const fs::path& path) const;
  // After a reload: those that nobody holds any more.
  void drop_unused();

 private:
  std::map<fs::path, std::shared_ptr<TelemetrySocket>> open_;
};

}  // namespace osml
