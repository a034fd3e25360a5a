#include "gate/gate.h"

#include <unistd.h>

#include "gate/local_socket.h"

namespace osml {

namespace {
constexpr std::size_t most_at_once = 256;
}

Result<std::unique_ptr<Gate>> Gate::open(const fs::path& state_dir) {
  auto fd = bind_private(state_dir / gate_socket);
  if (!fd) return fd.error();
  return std::unique_ptr<Gate>(new Gate(state_dir, std::move(*fd)));  // not make_unique: the constructor is private
}

Gate::~Gate() { (void)::unlink((directory_ / gate_socket).c_str()); }

std::vector<ContainerQuestion> Gate::take() {
  std::vector<ContainerQuestion> questions;
  while (questions.size() < most_at_once) {
    const auto text = receive_datagram(fd_);
    if (!text) break;
    if (auto question = parse_question(*text)) questions.push_back(std::move(*question));
  }
  return questions;
}

// A plugin that is away or busy gets none: its container starts without.
void Gate::answer(const ContainerAnswer& answer) { (void)send(text_of(answer)); }

bool Gate::tell(const CpusInForce& cpus) {
  if (cpus == told_) return false;
  const Status sent = send(text_of(cpus));
  const bool away = !sent && sent.error().kind == ErrorKind::Gone;
  if (sent || away) told_ = cpus;  // a plugin that comes asks; one that is busy is told again
  return sent.ok();
}

Status Gate::send(const std::string& text) { return send_datagram(fd_, directory_ / plugin_socket, text); }

}  // namespace osml
