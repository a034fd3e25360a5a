#include "gate/local_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/trust.h"
#include "base/unix_socket.h"
#include "gate/gate.h"

namespace osml {

Result<Fd> bind_private(const fs::path& path) {
  if (path.native().size() > longest_socket_path) {
    return Error{ErrorKind::Input,
                 "state_dir " + path.parent_path().string() + ": a socket in it has a path of more than " +
                     std::to_string(longest_socket_path) + " bytes; use a shorter one",
                 0};
  }
  if (Status trusted = refuse_untrusted(path.parent_path(), "state_dir"); !trusted) return trusted.error();
  if (Status cleared = clear_stale_socket(path, path.string()); !cleared) return cleared.error();
  auto fd = datagram_socket(AF_UNIX);
  if (!fd) return fd.error();
  // The file is made with the socket's mode.
  if (::fchmod(fd->get(), S_IRUSR | S_IWUSR) != 0) return errno_error(errno, path.string());
  const sockaddr_un address = unix_address(path);
  if (::bind(fd->get(), general(address), sizeof(address)) != 0) {
    return errno_error(errno, "cannot bind " + path.string());
  }
  return std::move(*fd);
}

std::optional<std::string> receive_datagram(const Fd& fd) {
  std::string text(longest_gate_datagram, '\0');
  ssize_t length = -1;
  do {
    length = ::recv(fd.get(), text.data(), text.size(), MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Status send_datagram(const Fd& fd, const fs::path& to, std::string_view text) {
  const sockaddr_un address = unix_address(to);
  const ssize_t sent =
      ::sendto(fd.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL, general(address), sizeof(address));
  if (sent >= 0) return done();
  const bool away = errno == ENOENT || errno == ECONNREFUSED;
  return away ? Error{ErrorKind::Gone, "nobody listens at " + to.string(), errno}
              : errno_error(errno, "cannot send to " + to.string());
}

}  // namespace osml
