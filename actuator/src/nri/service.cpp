#include "nri/service.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "base/clock.h"
#include "base/trust.h"
#include "base/unix_socket.h"
#include "gate/gate.h"
#include "gate/gate_client.h"

namespace osml::nri {

namespace {

constexpr double first_pause_s = 0.5;
constexpr double longest_pause_s = 10;
constexpr double ask_again_s = 1;
constexpr double longest_farewell_s = 15;  // Kubernetes and systemd allow 20
constexpr int ms_per_s = 1000;

Result<Fd> stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return errno_error(errno, "sigprocmask");
  Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return errno_error(errno, "signalfd");
  return fd;
}

Result<Fd> connect_to(const fs::path& path) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return errno_error(errno, "socket");
  const sockaddr_un address = unix_address(path);
  if (::connect(fd.get(), general(address), sizeof(address)) != 0) return errno_error(errno, path.string());
  // A runtime that reads nothing any more shall not hold up the plugin for ever.
  const timeval most{2, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  return fd;
}

Status send_all(const Fd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno_error(errno, "cannot send to the runtime");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return done();
}

// One connection, from registration to its end.
class Connection {
 public:
  Connection(const ServiceOptions& options, const Fd& stop, GateClient& agent, KnownContainers& containers, Fd runtime)
      : options_(&options),
        stop_(&stop),
        agent_(&agent),
        runtime_(std::move(runtime)),
        plugin_(options.name, options.all_cpus, agent, containers) {}

  // Done: the process shall stop. The error says why the connection ended.
  Status run();
  [[nodiscard]] bool was_good() const { return told_; }

 private:
  Status hear();
  Status keep_up();
  [[nodiscard]] int patience_ms() const;
  // Both are often stopped together: the agent puts everything back first, and the runtime has to hear of it.
  [[nodiscard]] bool agent_is_left() const { return may_wait() && osml::exists(options_->state_dir / gate_socket); }
  [[nodiscard]] bool may_wait() const { return monotonic_s() - *stop_s_ < longest_farewell_s; }

  const ServiceOptions* options_;
  const Fd* stop_;
  GateClient* agent_;
  Fd runtime_;
  Plugin plugin_;
  bool told_ = false;
  std::optional<double> away_s_;  // when the agent gave no answer, last
  std::optional<double> stop_s_;  // when the plugin was asked to stop
};

Status Connection::run() {
  if (Status sent = send_all(runtime_, plugin_.registration()); !sent) return sent;
  while (true) {
    const int stop = stop_s_ ? -1 : stop_->get();
    std::array<pollfd, 3> waiting{{{stop, POLLIN, 0}, {runtime_.get(), POLLIN, 0}, {agent_->fd(), POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), patience_ms()) < 0 && errno != EINTR) return errno_error(errno, "poll");
    if (waiting[0].revents != 0) stop_s_ = monotonic_s();
    if (waiting[1].revents != 0) {
      if (Status heard = hear(); !heard) return heard;
      if (plugin_.dismissed()) return Error{ErrorKind::Gone, "the runtime goes down", 0};
    }
    if (Status kept = keep_up(); !kept) return kept;
    if (!stop_s_ || agent_is_left()) continue;
    if (Status kept = keep_up(); !kept) return kept;  // what the agent told just before it went
    if (!plugin_.awaits_answers() || !may_wait()) return done();
  }
}

int Connection::patience_ms() const {
  if (stop_s_ || (plugin_.behind() && away_s_)) return ms_per_s / 10;
  return plugin_.behind() ? 0 : -1;
}

Status Connection::hear() {
  std::array<char, 65536> buffer{};
  const ssize_t length = ::recv(runtime_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (length < 0 && (errno == EINTR || errno == EAGAIN)) return done();
  if (length < 0) return errno_error(errno, "cannot read from the runtime");
  if (length == 0) return Error{ErrorKind::Gone, "the runtime closed the connection", 0};
  const auto back = plugin_.hear({buffer.data(), static_cast<std::size_t>(length)});
  if (!back) return back.error();
  if (Status sent = send_all(runtime_, *back); !sent) return sent;
  // Half of what the runtime allows: the answer has to get there, too.
  if (plugin_.request_timeout_s() > 0) agent_->wait_at_most(plugin_.request_timeout_s() / 2);
  if (plugin_.registered() && !plugin_.runtime().empty() && !told_) {
    spdlog::info("registered as an NRI plugin of {}", plugin_.runtime());
    told_ = true;
  }
  return done();
}

Status Connection::keep_up() {
  const auto in_force = agent_->told();
  if (in_force) {
    away_s_.reset();
    if (Status sent = send_all(runtime_, plugin_.follow(*in_force)); !sent) return sent;
  }
  const bool soon = away_s_ && monotonic_s() - *away_s_ < ask_again_s;
  if (!plugin_.behind() || soon) return done();
  const Plugin::CaughtUp caught_up = plugin_.catch_up();
  away_s_ = caught_up.answered ? std::nullopt : std::optional(monotonic_s());
  return send_all(runtime_, caught_up.bytes);
}

// True: stop.
bool pause(const Fd& stop, double seconds) {
  pollfd waiting{stop.get(), POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(seconds * ms_per_s)) > 0;
}

}  // namespace

Status run_service(const ServiceOptions& options) {
  auto stop = stop_signals();
  if (!stop) return stop.error();
  // It may be there before the agent.
  if (Status prepared = prepare_state_directory(options.state_dir); !prepared) return prepared;
  auto agent = GateClient::open(options.state_dir, options.patience_s);
  if (!agent) return agent.error();
  KnownContainers containers;
  std::string told;
  double pause_s = first_pause_s;
  do {
    auto runtime = connect_to(options.socket);
    Status ended = runtime ? done() : Status(runtime.error());
    if (runtime) {
      Connection connection(options, *stop, **agent, containers, std::move(*runtime));
      ended = connection.run();
      if (ended) return done();
      if (connection.was_good()) {
        pause_s = first_pause_s;
        told.clear();
      }
    }
    if (ended.error().message != told) {
      spdlog::warn("no connection to the container runtime, containers start without osml: {}", ended.error().message);
    }
    told = ended.error().message;
    pause_s = std::min(2 * pause_s, longest_pause_s);
  } while (!pause(*stop, pause_s));
  return done();
}

}  // namespace osml::nri
