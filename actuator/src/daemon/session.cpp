#include "daemon/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "bandwidth/brake.h"
#include "base/cpuset.h"
#include "daemon/service_manager.h"

namespace osml {

namespace {

CpuSet cpus_of(const Platform& platform) {
  const auto cpus = parse_cpulist(platform.cpus);
  return cpus ? *cpus : CpuSet{};
}

// A dry run may look beside an agent that holds the sockets: then the latencies are missing, with the reason.
Status open_sockets(const Config& config, const SessionOptions& options) {
  if (options.sockets == nullptr || options.dry_run) return done();
  for (const ServiceConfig& service : config.services) {
    if (!service.latency || !service.latency->datagram) continue;
    const auto opened = options.sockets->get(*service.latency->datagram, service.latency->datagram_mode);
    if (opened) continue;
    const Error error = opened.error().wrap("latency of service '" + service.spec.name + "'");
    if (!options.known) return error;
    spdlog::error("{}", error.message);
  }
  return done();
}

// Without opening one: those that are open are the old configuration's until it goes.
Status check_sockets(const Config& config) {
  for (const ServiceConfig& service : config.services) {
    if (!service.latency || !service.latency->datagram) continue;
    if (const Status possible = TelemetrySockets::check(*service.latency->datagram); !possible) {
      return possible.error().wrap("latency of service '" + service.spec.name + "'");
    }
  }
  return done();
}

// The token, and a look at the files that libcurl reads by itself.
Result<std::string> read_secrets(const ServerConfig& server) {
  auto token = read_token(server);
  if (!token) return token.error();
  if (Status trusted = check_tls_files(server); !trusted) return trusted.error();
  return token;
}

// A virtual node has short intervals on purpose.
void warn_of_long_questions(const Config& config) {
  if (config.time_scale > 1 || config.server.timeout_s < config.interval_s / config.time_scale) return;
  spdlog::warn(
      "server.timeout_s is {:g} s and an interval is {:g} s: a silent server makes the agent skip intervals; set "
      "server.timeout_s below interval_s",
      config.server.timeout_s, config.interval_s / config.time_scale);
}

// Most lines would be too old by the time of a turn.
void warn_of_short_ages(const Config& config) {
  for (const ServiceConfig& service : config.services) {
    if (!service.latency || service.latency->prometheus) continue;
    const double most_s = max_age_of(service.latency, config.interval_s);
    if (most_s >= config.interval_s) continue;
    spdlog::warn(
        "latency.max_age_s of service '{}' is {:g} s and an interval is {:g} s: what the service sends may be too old "
        "at "
        "each turn; set max_age_s to at least interval_s",
        service.spec.name, most_s, config.interval_s);
  }
}

}  // namespace

Session::Session(Actuator actuator, std::string token, const SessionOptions& options, NodeClock clock)
    : actuator_(std::move(actuator)),
      config_(actuator_.config()),
      machine_(actuator_),
      token_(std::move(token)),
      client_(config_.server, token_, [this] { return attend(); }),
      recorder_(options.record ? std::optional<Recorder>(std::in_place, client_, *options.record) : std::nullopt),
      outbox_(make_outbox(options)),
      sensors_(
          config_, cpus_of(actuator_.platform()),
          [this](const std::string& service) { return actuator_.monitor_group(service); }, options.sockets,
          [this] { return attend(); }),
      audit_(config_.state_dir),
      regulator_(config_, [this](const std::string& service) { return actuator_.monitor_group(service); }),
      clock_(clock),
      loop_(config_, machine_, source(), sensors_, audit_, options.dry_run, clock_.now_s()),
      dry_run_(options.dry_run) {}

DecisionSource& Session::observed() {
  if (recorder_) return *recorder_;
  return client_;
}

DecisionSource& Session::source() { return outbox_ ? outbox_->source() : observed(); }

std::unique_ptr<ExperienceOutbox> Session::make_outbox(const SessionOptions& options) {
  if (options.dry_run || !config_.server.experiences) return nullptr;
  // Nodes that are started together shall not bring their batches together.
  const double first_s = CourierLimits{}.period_s * phase_of(config_.node);
  return std::make_unique<ExperienceOutbox>(observed(), config_.server, token_, monotonic_s(), first_s);
}

Status Session::check_files(const Config& config, bool dry_run) {
  if (const auto token = read_secrets(config.server); !token) return token.error();
  if (!dry_run) {
    if (Status possible = check_sockets(config); !possible) return possible;
  }
  return Actuator::check_files(config, dry_run);
}

Result<std::unique_ptr<Session>> Session::open(const Config& config, const SessionOptions& options,
                                               std::optional<NodeClock> clock) {
  auto token = options.known ? Result<std::string>(options.known->token) : read_secrets(config.server);
  if (!token) return token.error();
  if (sends_token_in_the_clear(config.server)) {
    spdlog::warn("the token goes to {} without encryption; set server.url to an https address", config.server.url);
  }
  warn_of_long_questions(config);
  warn_of_short_ages(config);
  auto actuator = Actuator::open(config, {.read_only = options.dry_run,
                                          .fault_injection = options.fault_injection,
                                          .curve = options.known ? options.known->curve : std::nullopt});
  if (!actuator) return actuator.error();
  if (!actuator->healed().empty()) spdlog::warn("{}", actuator->healed());
  if (Status opened = open_sockets(config, options); !opened) return opened.error();
  const NodeClock used = clock && clock->time_scale() == config.time_scale ? *clock : NodeClock(config.time_scale);
  // not make_unique: the constructor is private
  std::unique_ptr<Session> session(new Session(std::move(actuator).value(), std::move(token).value(), options, used));
  session->let_jobs_go();
  session->open_gate();
  return session;
}

// Without it containers start as they do without an NRI plugin, and are followed when the kubelet tells them.
void Session::open_gate() {
  if (dry_run_) return;
  auto gate = Gate::open(config_.state_dir);
  if (gate) {
    gate_ = std::move(*gate);
    tell_plugin();
  } else if (actuator_.kubelet() != nullptr) {
    spdlog::warn("an NRI plugin cannot ask this agent: {}", gate.error().message);
  }
}

void Session::tell_plugin() {
  if (gate_ && gate_->tell(actuator_.cpus_in_force())) actuator_.expect_overwriting();
}

void Session::answer_containers() {
  if (!gate_) return;
  for (const ContainerQuestion& question : gate_->take()) {
    const auto answer = actuator_.hear_of(question);
    if (!answer) {
      spdlog::warn("container {} starts with what its runtime gives it: {}", question.id, answer.error().message);
      gate_->answer({question.number, "", ""});
      continue;
    }
    gate_->answer(*answer);
    if (!answer->service.empty()) actuator_.expect_overwriting();
    if (question.stage == ContainerQuestion::Stage::Start && !answer->service.empty()) {
      spdlog::info("container {} of service '{}' starts with CPUs {}", question.id, answer->service,
                   answer->cpus.empty() ? "of its runtime" : answer->cpus);
    }
  }
}

double Session::attend() {
  const double sign_s = watchdog_interval_s();
  if (sign_s > 0) tell_service_manager("WATCHDOG=1");
  const double next_s = sign_s > 0 ? std::min(1.0, sign_s) : 1.0;
  if (!regulates()) return next_s;
  poll();
  return std::min(next_s, poll_interval_s());
}

// An agent that was killed may have left jobs standing still, also one that took percentages for budgets.
void Session::let_jobs_go() {
  if (dry_run_ || regulates()) return;
  Roots roots = config_.roots;
  roots.budgets = config_.state_dir / "budgets";  // also where the regulator is off by now
  for (const ServiceConfig& service : config_.services) {
    if (service.spec.kind != "be") continue;
    const Place* place = place_of(actuator_.places(), service.spec.name);
    const Match& match = place == nullptr ? service.match : place->match;
    if (Status gone_on = Brake(roots, service.spec.name, match).release(); !gone_on) {
      spdlog::warn("regulator: {}", gone_on.error().message);
    }
  }
}

void Session::turn() {
  loop_.turn([this] { return clock_.now_s(); });
  if (regulates()) {
    regulator_.follow(loop_.assignments(), actuator_.places());
  } else {
    regulator_.follow({});
  }
  tell_plugin();
  if (outbox_) outbox_->courier().send_due(monotonic_s());
}

std::vector<int> Session::waking_fds() const {
  std::vector<int> fds;
  if (outbox_) fds.push_back(outbox_->courier().fd());
  if (gate_) fds.push_back(gate_->fd());
  return fds;
}

void Session::follow(std::unique_ptr<ExperienceOutbox> before, bool wanted) {
  if (before && outbox_) outbox_->take_over(*before, wanted);
}

void Session::carry() {
  answer_containers();
  if (outbox_) outbox_->courier().carry(monotonic_s());
}

bool Session::regulates() const { return !dry_run_ && actuator_.throttles_in_software(); }

double Session::poll_interval_s() const {
  constexpr double polls_a_period = 5;
  constexpr double ms_per_s = 1000;
  constexpr double shortest_s = 0.0005;  // of wall time: a virtual node may be much faster
  if (!regulates()) return 0;
  return std::max(shortest_s, config_.bandwidth.period_ms / ms_per_s / polls_a_period / config_.time_scale);
}

Status Session::restore(const std::string& why) {
  Status restored = loop_.restore("restore", why, clock_.now_s());
  tell_plugin();
  return restored;
}

Status Session::close() {
  regulator_.release();
  if (dry_run_) return done();
  if (config_.on_exit == OnExit::Leave) {
    spdlog::info("on_exit leave: the allocation stays as it is");
    return done();
  }
  Status restored = restore("the agent stops");
  if (restored) spdlog::info("on_exit restore: the agent restored the settings from before its first change");
  return restored;
}

bool same_machine(const Config& a, const Config& b) {
  return a.roots == b.roots && a.cpu == b.cpu && a.state_dir == b.state_dir && a.bandwidth.curve == b.bandwidth.curve;
}

bool same_services(const Config& a, const Config& b) {
  if (a.services.size() != b.services.size()) return false;
  for (std::size_t i = 0; i < a.services.size(); ++i) {
    if (a.services[i].spec.name != b.services[i].spec.name || a.services[i].match != b.services[i].match) return false;
  }
  return true;
}

}  // namespace osml
