#include "gate/local_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/trust.h"
#include "base/unix_socket.h"

namespace osml {

namespace {

constexpr std::size_t longest_datagram = 65536;

}  // namespace

Result<Fd> bind_private(const fs::path& path) {
  if (path.native().size() > longest_socket_path) {
    return Error{ErrorKind::Input,
                 "state_dir " + path.parent_path().string() + ": a socket in it has a path of more than " +
                     std::to_string(longest_socket_path) + " bytes; use a shorter one",
                 0};
  }
  if (Status trusted = refuse_untrusted(path.parent_path(), "state_dir"); !trusted) return trusted.error();
  return bind_closed(path, path.string());
}

std::optional<std::string> receive_datagram(const Fd& fd) {
  std::string text(longest_datagram, '\0');
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
