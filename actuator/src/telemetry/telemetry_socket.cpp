#include "telemetry/telemetry_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/trust.h"
#include "base/unix_socket.h"

namespace osml {

namespace {

Error at(const fs::path& path, ErrorKind kind, const std::string& what) {
  return {kind, "datagram " + path.string() + ": " + what, 0};
}

}  // namespace

Result<std::shared_ptr<TelemetrySocket>> TelemetrySocket::open(const fs::path& path, unsigned mode) {
  if (Status possible = TelemetrySockets::check(path); !possible) return possible.error();
  auto fd = bind_closed(path, "datagram " + path.string());  // until set_mode() opens it as far as was asked for
  if (!fd) return fd.error();
  // not make_shared: the constructor is private
  std::shared_ptr<TelemetrySocket> made(new TelemetrySocket(path, std::move(*fd)));
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return errno_error(errno, "datagram " + path.string());
  made->inode_ = there.st_ino;
  made->device_ = there.st_dev;
  if (Status set = made->set_mode(mode); !set) return set.error();
  return made;
}

TelemetrySocket::~TelemetrySocket() {
  if (in_place()) (void)::unlink(path_.c_str());
}

bool TelemetrySocket::in_place() const {
  struct stat there {};
  return ::lstat(path_.c_str(), &there) == 0 && there.st_ino == inode_ && there.st_dev == device_;
}

Status TelemetrySocket::set_mode(unsigned mode) {
  if (::chmod(path_.c_str(), static_cast<mode_t>(mode)) != 0)
    return errno_error(errno, "cannot chmod " + path_.string());
  return done();
}

void TelemetrySocket::receive() {
  std::array<char, longest_datagram> buffer{};
  while (read_ < most_read) {
    // MSG_TRUNC: the length as it was sent, also where it did not fit
    const ssize_t length = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return;
    ++read_;
    ++received_;
    const auto size = static_cast<std::size_t>(length);
    auto sample = size <= buffer.size() ? parse_telemetry_line({buffer.data(), size}) : std::nullopt;
    if (!sample) {
      ++ignored_;
      ++ignored_since_;
      continue;
    }
    if (lines_.size() == most_datagrams) lines_.pop_front();
    lines_.push_back(*sample);
    newest_s_ = monotonic_s();
  }
}

TelemetrySocket::Arrived TelemetrySocket::take() {
  const double start_s = monotonic_s();
  read_ = 0;
  receive();
  Arrived arrived;
  arrived.lines.assign(lines_.begin(), lines_.end());
  arrived.ignored = std::exchange(ignored_since_, 0);
  arrived.age_s = std::max(0.0, start_s - newest_s_);
  lines_.clear();
  return arrived;
}

TelemetrySockets::TelemetrySockets(bool tries_again)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), tries_again_(tries_again) {}

Status TelemetrySockets::check(const fs::path& path) {
  const fs::path directory = path.lexically_normal().parent_path();
  if (std::error_code code; !fs::is_directory(directory, code)) {
    return at(path, ErrorKind::Input, "the directory " + directory.string() + " does not exist; create it first");
  }
  return refuse_untrusted(directory, "the directory of the datagram socket");
}

Result<std::shared_ptr<TelemetrySocket>> TelemetrySockets::get(const fs::path& given, unsigned mode) {
  const fs::path path = given.lexically_normal();
  const auto found = open_.find(path);
  if (found != open_.end() && found->second->in_place()) {
    if (Status set = found->second->set_mode(mode); !set) return set.error();
    return found->second;
  }
  if (const auto refused = refused_.find(path); refused != refused_.end()) return refused->second;
  if (found != open_.end() && !tries_again_) {
    return refuse(path, "its file was removed; a dry run does not make it again, so start the dry run again");
  }
  auto made = TelemetrySocket::open(path, mode);
  if (!made && made.error().kind == ErrorKind::Busy && !tries_again_) {
    return refuse(path,
                  "another process listens there, such as the agent; a dry run leaves it the socket, so this latency "
                  "is missing");
  }
  if (!made) return made.error();
  // Edges: a socket that is not read any more, since somebody floods it, wakes nobody. It leaves by being closed.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = made->get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, (*made)->fd(), &event) != 0) return errno_error(errno, "epoll_ctl");
  open_[path] = *made;
  return *made;
}

Error TelemetrySockets::refuse(const fs::path& path, const std::string& why) {
  return refused_.emplace(path, at(path, ErrorKind::Busy, why)).first->second;
}

void TelemetrySockets::receive() {
  std::array<epoll_event, 16> events{};  // of more, the next call
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    static_cast<TelemetrySocket*>(events.at(static_cast<std::size_t>(i)).data.ptr)->receive();
  }
}

const TelemetrySocket* TelemetrySockets::find(const fs::path& path) const {
  const auto found = open_.find(path.lexically_normal());
  return found == open_.end() ? nullptr : found->second.get();
}

void TelemetrySockets::drop_unused() {
  std::erase_if(open_, [](const auto& one) { return one.second.use_count() == 1; });
}

}  // namespace osml
