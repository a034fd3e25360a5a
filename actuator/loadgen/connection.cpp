#include "connection.h"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace osml::loadgen {

bool Connection::open(const sockaddr_in& address, int epoll, std::uint64_t key) {
  close();
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return false;
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // a request is one small write: never wait for more
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = key;
  // The socket API wants the general address type.
  const auto* general = reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
  const bool started = ::connect(fd_, general, sizeof address) == 0 || errno == EINPROGRESS;
  connect_error_ = started ? 0 : errno;
  if (!started || ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &event) != 0) {
    close();
    return false;
  }
  state_ = State::Connecting;
  return true;
}

void Connection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  state_ = State::Closed;
  unsent_.clear();
  reader_->restart();
}

bool Connection::send(std::string_view request, Nanos scheduled) {
  scheduled_ = scheduled;
  unsent_.assign(request);
  reader_->restart();
  state_ = State::Busy;
  return flush();
}

bool Connection::flush() {
  while (!unsent_.empty()) {
    const auto sent = ::send(fd_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

Connection::Event Connection::lost() {
  close();
  return Event::Lost;
}

Connection::Event Connection::connected() {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    connect_error_ = error;
    return lost();
  }
  if (!reader_->begin_greeting()) return opened();
  state_ = State::Greeting;
  return greeted();  // it may be here already, and then brings no edge of its own
}

Connection::Event Connection::opened() {
  state_ = State::Free;
  free_since_ = clock_now();
  return Event::Opened;
}

Connection::Event Connection::greeted() {
  std::array<char, 4096> buffer{};
  for (;;) {
    if (!flush()) return lost();
    const auto got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Event::Nothing;
    if (got <= 0) return lost();
    const Outcome outcome = reader_->greet({buffer.data(), static_cast<std::size_t>(got)}, unsent_);
    if (outcome == Outcome::Complete) return opened();
    if (outcome != Outcome::Incomplete) return lost();
  }
}

Connection::Event Connection::receive(bool hung_up) {
  static std::array<char, 65536> buffer;  // one thread, and no reply is kept
  for (;;) {
    const auto got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Event::Nothing;
    if (got <= 0 || state_ != State::Busy) return lost();  // the end, or bytes that nobody asked for
    const Outcome outcome = reader_->feed({buffer.data(), static_cast<std::size_t>(got)});
    if (outcome == Outcome::Incomplete) continue;
    if (outcome == Outcome::Broken) return lost();
    // Not read until EAGAIN: nothing may follow a reply, and a later end of the stream is a new edge. An end that came
    // with the reply is not, so it counts now.
    if (hung_up || reader_->closes()) {
      close();
    } else {
      state_ = State::Free;
      free_since_ = clock_now();
    }
    return outcome == Outcome::Complete ? Event::Answered : Event::Refused;
  }
}

Connection::Event Connection::on_event(std::uint32_t events) {
  if (state_ == State::Closed) return Event::Nothing;
  if (state_ == State::Connecting) {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return Event::Nothing;
    return connected();
  }
  if (state_ == State::Greeting) return (events & EPOLLERR) != 0 ? lost() : greeted();
  if ((events & EPOLLERR) != 0) return lost();
  if ((events & EPOLLOUT) != 0 && !flush()) return lost();
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) == 0) return Event::Nothing;
  return receive((events & (EPOLLRDHUP | EPOLLHUP)) != 0);
}

}  // namespace osml::loadgen
