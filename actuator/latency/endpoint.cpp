#include "endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/number.h"
#include "base/unix_socket.h"

namespace osml::latency {

namespace {

// Bytes, so that a pause of this program loses no requests. Without CAP_NET_ADMIN net.core.rmem_max is the limit.
constexpr int receive_buffer = 8 << 20;
constexpr mode_t for_everybody = 0666;
constexpr mode_t file_mode = 0640;

Error wrong(const std::string& option, const std::string& value, const std::string& expected) {
  return {ErrorKind::Input, option + " is '" + value + "', expected " + expected, 0};
}

std::optional<std::string> after(const std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return std::nullopt;
  return text.substr(prefix.size());
}

Status check_length(const std::string& option, const std::string& path) {
  if (path.size() <= longest_socket_path) return done();
  return wrong(option, path, "a socket path of at most " + std::to_string(longest_socket_path) + " bytes");
}

Result<Fd> listen_unix(const std::string& path) {
  if (Status fits = check_length("--listen", path); !fits) return fits.error();
  if (Status cleared = clear_stale_socket(path, "--listen unix:" + path); !cleared) return cleared.error();
  auto fd = datagram_socket(AF_UNIX);
  if (!fd) return fd.error();
  const sockaddr_un address = unix_address(path);
  if (::bind(fd->get(), general(address), sizeof(address)) != 0) return errno_error(errno, "cannot bind " + path);
  if (::chmod(path.c_str(), for_everybody) != 0) return errno_error(errno, "cannot chmod " + path);
  return fd;
}

Result<sockaddr_in> address_of(const std::string& kind, const std::string& where) {
  const std::size_t colon = where.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : parse_unsigned(where.substr(colon + 1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  constexpr unsigned long long most_port = 65535;
  if (!port || *port == 0 || *port > most_port ||
      ::inet_pton(AF_INET, where.substr(0, colon).c_str(), &address.sin_addr) != 1) {
    return wrong("--listen", kind + where, kind + "ADDRESS:PORT with an IPv4 address and a port from 1 to 65535");
  }
  address.sin_port = htons(static_cast<std::uint16_t>(*port));
  return address;
}

Result<Fd> listen_udp(const std::string& where) {
  const auto address = address_of("udp:", where);
  if (!address) return address.error();
  auto fd = datagram_socket(AF_INET);
  if (!fd) return fd.error();
  if (::bind(fd->get(), general(*address), sizeof(*address)) != 0)
    return errno_error(errno, "cannot bind udp:" + where);
  return fd;
}

Error file_error(int number, const std::string& what) {
  Error error = errno_error(number, what);
  if (number != ENOSPC && number != EDQUOT) return error;
  error.message += "; make room on the disk";
  error.kind = ErrorKind::Gone;
  return error;
}

Result<Fd> open_to_append(const fs::path& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, file_mode));
  if (!fd.valid()) return file_error(errno, "cannot open " + path.string());
  // A machine that lost its power may have left half a line: the next one shall not be part of it.
  struct stat there {};
  char last = '\n';
  if (::fstat(fd.get(), &there) == 0 && there.st_size > 0 && ::pread(fd.get(), &last, 1, there.st_size - 1) == 1 &&
      last != '\n' && ::write(fd.get(), "\n", 1) != 1) {
    return file_error(errno, "cannot write " + path.string());
  }
  return fd;
}

bool is_at(const Fd& fd, const fs::path& path) {
  struct stat open {};
  struct stat there {};
  return ::fstat(fd.get(), &open) == 0 && ::lstat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino &&
         open.st_dev == there.st_dev;
}

const char* what_to_do(int number) {
  if (number == EACCES)
    return "; the socket belongs to another group: set Group=osml for the agent, or latency.datagram_mode";
  if (number == EAGAIN) return "; the agent reads less often than lines come: set --interval-s to its interval_s";
  return "; start the agent, or check --to";
}

}  // namespace

Result<Fd> listen_at(const std::string& endpoint) {
  const auto path = after(endpoint, "unix:");
  const auto where = after(endpoint, "udp:");
  if (!path && !where) return wrong("--listen", endpoint, "udp:ADDRESS:PORT or unix:PATH");
  auto fd = path ? listen_unix(*path) : listen_udp(*where);
  if (!fd) return fd;
  if (::setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(receive_buffer)) != 0) {
    (void)::setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  return fd;
}

Result<Fd> listen_http(const std::string& endpoint) {
  const auto where = after(endpoint, "http:");
  if (!where) return wrong("--listen", endpoint, "http:ADDRESS:PORT for --format otlp");
  const auto address = address_of("http:", *where);
  if (!address) return address.error();
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno_error(errno, "cannot make a socket");
  constexpr int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // after a restart
  if (::bind(fd.get(), general(*address), sizeof(*address)) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return errno_error(errno, "cannot listen on " + endpoint);
  }
  return fd;
}

Result<Outlet> Outlet::open(const std::string& endpoint) {
  const auto socket = after(endpoint, "unix:");
  const auto file = after(endpoint, "file:");
  if (!socket && !file) return wrong("--to", endpoint, "unix:PATH (the agent's datagram socket) or file:PATH");
  if (socket) {
    if (Status fits = check_length("--to", *socket); !fits) return fits.error();
    auto fd = datagram_socket(AF_UNIX);
    if (!fd) return fd.error();
    return Outlet(*socket, true, std::move(*fd));
  }
  auto fd = open_to_append(*file);
  if (!fd) return fd.error();
  return Outlet(*file, false, std::move(*fd));
}

// Whoever rotates the file moves it away: then a new one is made at the path.
Status Outlet::append(const std::string& line) {
  if (!is_at(fd_, path_)) {
    auto fresh = open_to_append(path_);
    if (!fresh) return fresh.error();
    fd_ = std::move(*fresh);
  }
  const std::string text = line + "\n";
  ssize_t written = -1;
  do {
    written = ::write(fd_.get(), text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return done();
  const int number = written < 0 ? errno : ENOSPC;
  // The next line shall not be part of half a line. From the end as it is now: somebody may have emptied the file.
  if (const off_t end = ::lseek(fd_.get(), 0, SEEK_END); written > 0 && end >= written) {
    (void)!::ftruncate(fd_.get(), end - written);
  }
  return file_error(number, "cannot write " + path_.string());
}

Status Outlet::send(const std::string& line) {
  if (!to_socket_) return append(line);
  const sockaddr_un address = unix_address(path_);
  const ssize_t sent = ::sendto(fd_.get(), line.data(), line.size(), MSG_DONTWAIT, general(address), sizeof(address));
  if (sent >= 0) return done();
  Error error = errno_error(errno, "cannot send to " + path_.string());
  error.message += what_to_do(error.code);
  error.kind = ErrorKind::Gone;
  return error;
}

}  // namespace osml::latency
