// Datagram sockets of two processes that trust each other: both run as root.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace osml {

// Bound with mode 0600; a socket that a crash left is replaced. The directory must belong to root alone.
Result<Fd> bind_private(const fs::path& path);
// The next one that is there; none where there is none. One that is too long comes cut, and makes no sense then.
std::optional<std::string> receive_datagram(const Fd& fd);
// Never waits. Gone where nobody listens there.
Status send_datagram(const Fd& fd, const fs::path& to, std::string_view text);

}  // namespace osml
