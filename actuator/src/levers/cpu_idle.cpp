#include "levers/cpu_idle.h"

namespace osml {

namespace {

constexpr const char* least_weight = "1";

}  // namespace

Result<std::string> CpuIdle::read() {
  if (has_idle()) {
    const auto idle = read_text(idle_file());
    if (!idle) return idle.error();
    if (*idle == "1") return std::string(idle_word);
    return read_text(file());
  }
  auto weight = read_text(file());
  return weight && *weight == least_weight ? Result<std::string>(std::string(idle_word)) : weight;
}

Status CpuIdle::write(const std::string& value) {
  const bool idle = value == idle_word;
  if (!has_idle()) return write_command(file(), (idle ? least_weight : value) + std::string("\n"));
  if (idle) return write_command(idle_file(), "1\n");
  const auto now = read_text(idle_file());
  if (!now) return now.error();
  if (*now == "1") {
    if (Status awake = write_command(idle_file(), "0\n"); !awake) return awake;
  }
  return write_command(file(), value + "\n");
}

Status CpuIdle::restore(const std::string& snapshot) {
  if (Status usable = reachable(); !usable || directory().empty()) return usable;
  if (Status written = write(snapshot); !written) return written;
  const auto now = read();
  if (!now) return now.error();
  if (*now == snapshot) return done();
  return Error{ErrorKind::Io,
               file().string() + ": the agent restored '" + snapshot + "', but the kernel reports '" + *now + "'", 0};
}

}  // namespace osml
