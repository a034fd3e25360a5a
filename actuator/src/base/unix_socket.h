// Datagram sockets with a file.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "base/files.h"
#include "base/result.h"

namespace osml {

// Bytes, without the zero at its end.
constexpr std::size_t longest_socket_path = sizeof(sockaddr_un::sun_path) - 1;

// Not connected, not bound; never waits.
Result<Fd> datagram_socket(int family);
// Of a path that fits (longest_socket_path); a longer one is cut.
sockaddr_un unix_address(const fs::path& path);
// bind(2), connect(2) and sendto(2) want the general type.
template <class Address>
const sockaddr* general(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
}
// Done: nothing is at the path any more. A socket that nobody listens at, which a crash left, is removed. Input for any
// other file, Busy where another process listens. `name` begins the sentence.
Status clear_stale_socket(const fs::path& path, const std::string& name);

// Bound with mode 0600; what a crash left is replaced. `name` begins the sentence. Trust in the directory is the
// caller's to check.
Result<Fd> bind_closed(const fs::path& path, const std::string& name);

}  // namespace osml
