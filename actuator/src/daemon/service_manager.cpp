#include "daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/files.h"
#include "base/number.h"
#include "base/units.h"

namespace osml {

void tell_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  std::string name(path);
  sockaddr_un address{};
  if (name.size() < 2 || name.size() >= sizeof address.sun_path || (name.front() != '/' && name.front() != '@')) return;
  if (name.front() == '@') name.front() = '\0';  // a name without a file
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), std::begin(address.sun_path));
  const Fd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), length);
}

double watchdog_interval_s() {
  const char* patience = std::getenv("WATCHDOG_USEC");
  const char* whose = std::getenv("WATCHDOG_PID");
  if (patience == nullptr ||
      (whose != nullptr && parse_unsigned(whose) != static_cast<unsigned long long>(::getpid()))) {
    return 0;
  }
  return static_cast<double>(parse_unsigned(patience).value_or(0)) / us_per_s / 2;
}

}  // namespace osml
