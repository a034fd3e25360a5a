#include "gate/gate_client.h"

#include <poll.h>
#include <unistd.h>

#include <cmath>

#include "base/clock.h"
#include "gate/gate.h"
#include "gate/local_socket.h"

namespace osml {

Result<std::unique_ptr<GateClient>> GateClient::open(const fs::path& state_dir, double patience_s) {
  auto fd = bind_private(state_dir / plugin_socket);
  if (!fd) return fd.error();
  // not make_unique: the constructor is private
  std::unique_ptr<GateClient> made(new GateClient(state_dir, std::move(*fd), patience_s));
  constexpr double numbers_per_s = 1e6;  // above the numbers of a process before this one, whose answers may still come
  made->number_ = static_cast<std::uint64_t>(monotonic_s() * numbers_per_s);
  return made;
}

GateClient::~GateClient() { (void)::unlink((directory_ / plugin_socket).c_str()); }

std::optional<ContainerAnswer> GateClient::read_one() {
  const auto text = receive_datagram(fd_);
  if (!text) return std::nullopt;
  auto found = parse_from_agent(*text);
  if (!found) return std::nullopt;
  if (found->in_force) told_ = std::move(found->in_force);
  return std::move(found->answer);
}

std::optional<ContainerAnswer> GateClient::ask(ContainerQuestion question) {
  question.number = ++number_;
  if (!send_datagram(fd_, directory_ / gate_socket, text_of(question))) return std::nullopt;
  const double until_s = monotonic_s() + patience_s_;
  constexpr double ms_per_s = 1000;
  while (true) {
    const double left_s = until_s - monotonic_s();
    if (left_s <= 0) return std::nullopt;
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::ceil(left_s * ms_per_s))) <= 0) continue;
    auto answer = read_one();
    if (answer && answer->number == question.number) return answer;  // others are late ones
  }
}

std::optional<CpusInForce> GateClient::told() {
  constexpr int most_at_once = 256;
  pollfd waiting{fd_.get(), POLLIN, 0};
  for (int i = 0; i<most_at_once&& ::poll(&waiting, 1, 0)> 0; ++i) (void)read_one();
  return std::exchange(told_, std::nullopt);
}

}  // namespace osml
