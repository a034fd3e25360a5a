#include "daemon/daemon.h"

#include <curl/curl.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "daemon/cluster_facts.h"
#include "daemon/service_manager.h"
#include "daemon/session.h"
#include "daemon/wakeups.h"
#include "domain/json.h"
#include "kubernetes/reporter.h"
#include "kubernetes/target_lister.h"
#include "report/json_lines.h"
#include "report/log.h"
#include "report/metrics.h"
#include "report/metrics_file.h"
#include "report/self_usage.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr double ms_per_s = 1000;

SessionOptions session_options(const RunOptions& options, TelemetrySockets& sockets) {
  return {.dry_run = options.dry_run,
          .fault_injection = options.fault_injection,
          .record = options.record,
          .sockets = &sockets};
}

double unix_now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double wall_interval_s(const Config& config) { return config.interval_s / config.time_scale; }

// Zero from the start; null where none are sent.
json experiences_json(const ExperienceOutbox* outbox) {
  if (outbox == nullptr) return nullptr;
  return {{"sent", outbox->courier().sent()},
          {"waiting", outbox->buffer().size()},
          {"dropped", outbox->buffer().dropped()},
          {"refused", outbox->courier().refused()}};
}

class Daemon {
 public:
  Daemon(const RunOptions& options, Wakeups wakeups, TelemetrySockets& sockets, std::unique_ptr<Session> session)
      : options_(&options),
        wakeups_(std::move(wakeups)),
        sockets_(&sockets),
        session_(std::move(session)),
        clock_(session_->clock()) {
    if (options.stats) stats_.emplace(*options.stats, 0);
    cluster_ = make_cluster();
    lister_ = make_lister();
  }

  Status run();

 private:
  // From the start to the stop.
  Status manage();
  Status start_timer(double delay_s);
  Status watch_courier();
  Status watch_cluster();
  Status watch_lister();
  // What a single turn (--once) found: an error where a service is not there, or the server gave no decision.
  [[nodiscard]] Status looked(const std::string& absent) const;
  // All but Stop.
  Status handle(const Wakeup& wakeup);
  void turn(std::uint64_t due);
  // None where nothing is told, as in a dry run.
  [[nodiscard]] std::unique_ptr<ClusterReporter> make_cluster() const;
  void tell_cluster();
  // `next` goes on after a reload; none: the agent, or what it tells, ends.
  void stop_cluster(ClusterReporter* next);
  // None where LatencyTargets are not asked for.
  [[nodiscard]] std::unique_ptr<TargetLister> make_lister() const;
  void carry_targets();
  // What a single turn (--once) shall know from the start.
  Status wait_for_targets();
  [[nodiscard]] Moment moment() const { return {clock_.now_s(), unix_now_s()}; }
  Status reload();
  Status replace_session(const Config& config);
  void record_usage(double tick_ms);
  void publish(bool up) { publish(up, session_->config()); }
  void publish(bool up, const Config& config);

  const RunOptions* options_;
  Wakeups wakeups_;
  TelemetrySockets* sockets_;
  std::unique_ptr<Session> session_;  // none after a reload that could open neither configuration
  NodeClock clock_;                   // of the session
  std::unique_ptr<ClusterReporter> cluster_;
  std::unique_ptr<TargetLister> lister_;
  AgentMetrics metrics_{unix_now_s()};
  double published_s_ = 0;
  std::string publish_error_;  // as told last
  SelfMeter meter_;
  std::optional<JsonLines> stats_;
  std::uint64_t turns_ = 0;
};

Status Daemon::start_timer(double delay_s) {
  return wakeups_.start_timer(delay_s, wall_interval_s(session_->config()));
}

Status Daemon::watch_courier() {
  for (const int fd : session_->waking_fds()) {
    if (Status watched = wakeups_.watch_courier(fd); !watched) return watched;
  }
  return done();
}

Status Daemon::watch_cluster() { return cluster_ ? wakeups_.watch_courier(cluster_->fd()) : done(); }

Status Daemon::watch_lister() { return lister_ ? wakeups_.watch_courier(lister_->fd()) : done(); }

std::unique_ptr<ClusterReporter> Daemon::make_cluster() const {
  const Config& config = session_->config();
  if (!config.kubernetes.on() || options_->dry_run || options_->once) return nullptr;
  return std::make_unique<ClusterReporter>(config.kubernetes, config.interval_s, config.time_scale);
}

std::unique_ptr<TargetLister> Daemon::make_lister() const {
  const Config& config = session_->config();
  if (!config.kubelet.discover.lists_targets()) return nullptr;
  return std::make_unique<TargetLister>(config, moment().node_s);
}

void Daemon::carry_targets() {
  if (!lister_) return;
  for (TargetNews& news : lister_->carry(moment().node_s)) session_->actuator().take_targets(std::move(news));
}

Status Daemon::wait_for_targets() {
  if (!lister_) return done();
  for (TargetNews& news : lister_->wait(moment().node_s)) session_->actuator().take_targets(std::move(news));
  return session_->actuator().look();
}

void Daemon::tell_cluster() {
  if (!cluster_) return;
  const Loop& loop = session_->loop();
  cluster_->see(cluster_facts(loop.report(), loop.memory().partition, session_->actuator().platform(),
                              session_->config().services),
                moment());
  metrics_.see(cluster_->counts());
}

void Daemon::stop_cluster(ClusterReporter* next) {
  if (!cluster_) return;
  if (next != nullptr) {
    cluster_->give_way(*next, moment());
  } else {
    cluster_->stop(moment());
  }
  metrics_.see(cluster_->counts());
  metrics_.see(ReportCounts{});  // the next one counts from zero
  cluster_.reset();
}

Status Daemon::run() {
  Status ran = manage();
  // Also where it ends by an error: nobody looks after what the cluster was promised.
  stop_cluster(nullptr);
  if (session_) publish(false);
  return ran;
}

Status Daemon::manage() {
  const Config& config = session_->config();
  if (Status watched = watch_courier(); !watched) return watched;
  if (Status watched = watch_cluster(); !watched) return watched;
  if (Status watched = watch_lister(); !watched) return watched;
  if (Status watched = wakeups_.watch_courier(sockets_->fd()); !watched) return watched;
  // A test that wants one turn, and a virtual node with compressed time, need no spreading.
  const bool spread = config.time_scale <= 1 && !options_->ticks;
  const bool once = options_->ticks == 1;
  const double phase_s = once ? wall_interval_s(config) : spread ? phase_of(config.node) * wall_interval_s(config) : 0;
  if (once) {
    if (Status known = wait_for_targets(); !known) return known;
    session_->prime();
  }
  if (Status polls = wakeups_.start_polls(session_->poll_interval_s()); !polls) return polls;
  if (Status started = start_timer(phase_s); !started) return started;
  std::string absent = absent_in_words(session_->actuator().places());
  if (!absent.empty()) absent.insert(0, "; not there: ");
  spdlog::info("osml-agent {} manages node {} with {} services, {} core units and {} ways; it asks {} every {} s{}",
               OSML_VERSION, config.node, config.services.size(), session_->actuator().platform().cores,
               session_->actuator().platform().ways.value_or(0), config.server.url, config.interval_s, absent);
  if (Status watchdog = wakeups_.start_watchdog(watchdog_interval_s()); !watchdog) return watchdog;
  tell_service_manager("READY=1");
  while (!options_->ticks || turns_ < *options_->ticks) {
    const auto wakeup = wakeups_.wait();
    if (!wakeup) return wakeup.error();
    if (wakeup->kind == Wakeup::Kind::Stop) break;
    if (Status handled = handle(*wakeup); !handled) return handled;
  }
  tell_service_manager("STOPPING=1");
  absent = absent_in_words(session_->actuator().places());
  if (Status closed = session_->close(); !closed) return closed;
  return options_->once ? looked(absent) : done();
}

Status Daemon::handle(const Wakeup& wakeup) {
  if (wakeup.kind == Wakeup::Kind::Reload) return reload();
  if (wakeup.kind == Wakeup::Kind::Watchdog) {
    tell_service_manager("WATCHDOG=1");
  } else if (wakeup.kind == Wakeup::Kind::Poll) {
    session_->poll();
  } else if (wakeup.kind == Wakeup::Kind::Courier) {
    sockets_->receive();
    session_->carry();
    if (cluster_) cluster_->carry(moment());
    carry_targets();
  } else {
    turn(wakeup.ticks);
  }
  return done();
}

Status Daemon::looked(const std::string& absent) const {
  if (!absent.empty()) return absent_error(absent);
  const TurnReport& report = session_->loop().report();
  if (report.failure) return Error{ErrorKind::Io, "no decision: " + report.failure_in_words, 0};
  return done();
}

void Daemon::turn(std::uint64_t due) {
  if (due > 1) {
    spdlog::warn("the work of one interval took longer than {:.0f} ms; skipped intervals: {}",
                 wall_interval_s(session_->config()) * ms_per_s, due - 1);
  }
  const double start_s = monotonic_s();
  session_->turn();
  ++turns_;
  const double took_s = monotonic_s() - start_s;
  record_usage(took_s * ms_per_s);
  metrics_.turn(session_->loop().report(), unix_now_s(), took_s, due > 0 ? due - 1 : 0);
  metrics_.see(session_->config(), *sockets_, session_->outbox());
  metrics_.see(session_->actuator().kubelet());
  metrics_.see(session_->actuator().discovered());
  metrics_.see(session_->actuator().targets(), lister_.get());
  tell_cluster();
  if (lister_) lister_->see(moment().node_s);
  // Nobody reads them more often, and a turn may be a few milliseconds.
  constexpr double shortest_pause_s = 1;
  if (published_s_ == 0 || monotonic_s() - published_s_ >= shortest_pause_s) publish(true);
}

void Daemon::publish(bool up, const Config& config) {
  const auto& file = config.metrics.textfile;
  // A look (--once --dry-run) may be beside the agent whose file it is.
  if (!file || (options_->dry_run && options_->ticks)) return;
  published_s_ = monotonic_s();
  const Status written = replace_metrics_file(*file, metrics_.text(config.node, up, options_->dry_run));
  const std::string error = written ? "" : written.error().message;
  if (!error.empty() && error != publish_error_) spdlog::warn("metrics.textfile: {}", error);
  publish_error_ = error;
}

void Daemon::record_usage(double tick_ms) {
  const bool wanted = stats_ || spdlog::should_log(spdlog::level::debug);
  if (!wanted) return;
  const SelfUsage usage = meter_.read();
  spdlog::debug("the work of this interval took {:.1f} ms; the agent uses {:.2f} % of a CPU and {:.1f} MiB", tick_ms,
                usage.cpu_pct.value_or(0), usage.rss_mib.value_or(0));
  if (!stats_) return;
  const json line = {{"t", session_->clock().now_s()},
                     {"cpu_pct", or_null(usage.cpu_pct)},
                     {"rss_mib", or_null(usage.rss_mib)},
                     {"tick_ms", tick_ms},
                     {"server_ms", or_null(session_->loop().server_ms())},
                     {"experiences", experiences_json(session_->outbox())}};
  if (const Status written = stats_->append(line.dump()); !written) {
    spdlog::warn("--stats: {}; the agent writes no more lines to this file", written.error().message);
    stats_.reset();
  }
}

Status Daemon::reload() {
  auto config = options_->load();
  if (!config) {
    spdlog::error("the configuration was not reloaded; the agent keeps the old configuration:\n{}",
                  config.error().message);
    metrics_.reloaded(false);
    return done();
  }
  // While the session stands: without it, files of the configuration before would be read again as well.
  Status usable = Session::check_files(*config, options_->dry_run);
  const bool moves = config->state_dir != session_->config().state_dir;
  if (usable && moves && !options_->dry_run) usable = Actuator::check_lock(*config);  // the own one is locked
  if (!usable) {
    spdlog::error("the configuration was not reloaded; the agent keeps the old configuration: {}",
                  usable.error().message);
    metrics_.reloaded(false);
    return done();
  }
  configure_log(config->log);
  const double before_s = wall_interval_s(session_->config());
  if (Status replaced = replace_session(*config); !replaced) return replaced;
  // The next turn may be an hour away: until then alerts go by the interval that is told.
  metrics_.see(session_->config(), *sockets_, session_->outbox());
  if (published_s_ != 0) publish(true);
  if (Status polls = wakeups_.start_polls(session_->poll_interval_s()); !polls) return polls;
  // The turns go on as they were: somebody may reload many nodes at once, or more often than once an interval.
  const double now_s = wall_interval_s(session_->config());
  return now_s == before_s ? done() : start_timer(phase_of(session_->config().node) * now_s);
}

Status Daemon::replace_session(const Config& config) {
  Config old = session_->config();
  std::erase_if(old.services, [](const ServiceConfig& service) { return service.spec.source.has_value(); });
  const NodeClock clock = session_->clock();
  Memory memory = session_->loop().memory();
  if (!options_->dry_run && !same_machine(old, config)) {
    // The new configuration does not know how to undo what was done under the old one.
    spdlog::info("roots, cpu, state_dir or bandwidth.curve changed: the agent restores all settings first");
    if (const Status restored = session_->restore("the reload changes what the agent manages with"); !restored) {
      spdlog::error("the restore before the reload failed: {}", restored.error().message);
    }
  }
  if (!same_machine(old, config) || !same_services(old, config)) {
    memory.partition.reset();
    memory.supposing.reset();
  }
  metrics_.see(old, *sockets_, session_->outbox());  // what goes with the session was counted
  std::unique_ptr<ExperienceOutbox> outbox = session_->give_up_outbox();
  SessionFiles files = session_->files();
  session_.reset();  // gives up the lock
  auto fresh = Session::open(config, session_options(*options_, *sockets_), clock);
  metrics_.reloaded(fresh.ok());
  if (!fresh) {
    spdlog::error("the new configuration cannot be used on this node; the agent keeps the old configuration: {}",
                  fresh.error().message);
    configure_log(old.log);
    SessionOptions again = session_options(*options_, *sockets_);
    again.known = std::move(files);
    fresh = Session::open(old, again, clock);
    if (!fresh) {
      publish(false, old);
      return fresh.error();
    }
  } else {
    spdlog::info("the configuration was reloaded");
  }
  session_ = std::move(fresh).value();
  clock_ = session_->clock();
  const Config& now = session_->config();
  if (outbox && session_->outbox() == nullptr) {
    outbox->close();  // nobody sends what waits there
    metrics_.see(old, *sockets_, outbox.get());
  }
  session_->follow(std::move(outbox), now.node == old.node && now.server.url == old.server.url);
  sockets_->drop_unused();
  if (old.metrics.textfile && old.metrics.textfile != session_->config().metrics.textfile) {
    std::error_code ignored;
    fs::remove(*old.metrics.textfile, ignored);  // it would say for ever what was so once
  }
  if (Status watched = watch_courier(); !watched) return watched;
  if (now.kubernetes != old.kubernetes || now.interval_s != old.interval_s || now.time_scale != old.time_scale) {
    std::unique_ptr<ClusterReporter> next = make_cluster();
    stop_cluster(next.get());
    cluster_ = std::move(next);
    if (Status watched = watch_cluster(); !watched) return watched;
  }
  // What was under way is asked again.
  lister_ = make_lister();
  if (Status watched = watch_lister(); !watched) return watched;
  const bool other_clock = session_->clock().time_scale() != clock.time_scale();
  if (other_clock) memory.last_turn_s.reset();
  if (other_clock || now.server.url != old.server.url) memory.silence = session_->loop().memory().silence;
  session_->loop().remember(std::move(memory), session_->clock().now_s());
  return done();
}

}  // namespace

Status run_daemon(const RunOptions& options) {
  auto config = options.load();
  if (!config) return config.error();
  configure_log(config->log);
  raise_file_limit();
  curl_global_init(CURL_GLOBAL_DEFAULT);
  // before the machine is touched, so that a signal in between restores it
  auto wakeups = Wakeups::open();
  if (!wakeups) return wakeups.error();
  TelemetrySockets sockets(!options.dry_run);
  auto session = Session::open(*config, session_options(options, sockets), std::nullopt);
  if (!session) return session.error();
  return Daemon(options, std::move(wakeups).value(), sockets, std::move(session).value()).run();
}

}  // namespace osml
