#include "base/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace osml {

Result<Fd> datagram_socket(int family) {
  Fd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return errno_error(errno, "socket");
  return fd;
}

sockaddr_un unix_address(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  std::copy_n(text.data(), std::min(text.size(), longest_socket_path), address.sun_path);
  return address;
}

Status clear_stale_socket(const fs::path& path, const std::string& name) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return errno == ENOENT ? done() : Status(errno_error(errno, name));
  if (!S_ISSOCK(there.st_mode)) {
    return Error{ErrorKind::Input, name + ": this path exists and is not a socket; remove it, or set another path", 0};
  }
  const auto probe = datagram_socket(AF_UNIX);
  if (!probe) return probe.error();
  const sockaddr_un address = unix_address(path);
  if (::connect(probe->get(), general(address), sizeof(address)) == 0 || errno != ECONNREFUSED) {
    return Error{ErrorKind::Busy, name + ": another process listens there; stop that process, or set another path", 0};
  }
  if (::unlink(path.c_str()) != 0) return errno_error(errno, "cannot remove " + path.string());
  return done();
}

Result<Fd> bind_closed(const fs::path& path, const std::string& name) {
  if (Status cleared = clear_stale_socket(path, name); !cleared) return cleared.error();
  auto fd = datagram_socket(AF_UNIX);
  if (!fd) return fd.error();
  // The file is made with the socket's mode.
  if (::fchmod(fd->get(), S_IRUSR | S_IWUSR) != 0) return errno_error(errno, name);
  const sockaddr_un address = unix_address(path);
  if (::bind(fd->get(), general(address), sizeof(address)) != 0) {
    return errno_error(errno, "cannot bind " + path.string());
  }
  return fd;
}

}  // namespace osml
