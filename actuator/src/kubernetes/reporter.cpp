#include "kubernetes/reporter.h"

#include <spdlog/spdlog.h>

namespace osml {

namespace {

constexpr double shortest_pause_s = 60;  // between two changes of the resource

}  // namespace

ClusterReporter::ClusterReporter(const KubernetesConfig& config, double interval_s, double time_scale)
    : config_(config),
      time_scale_(time_scale),
      status_path_("/api/v1/nodes/" + config.node_name + "/status"),
      server_(config, ApiUse::Reports),
      window_(interval_s),
      jobs_(interval_s),
      events_(config.node_name),
      status_lane_(config.node_name + "/status"),
      event_lane_(config.node_name + "/events") {}

ReportCounts ClusterReporter::counts() const { return {results_, events_.merged()}; }

void ClusterReporter::turn_to(const std::string& status, double unix_s) {
  // What the node said before this agent came is not known, so the first word counts as a change.
  if (status == status_) return;
  status_ = status;
  changed_unix_s_ = unix_s;
}

void ClusterReporter::see(const ClusterFacts& facts, const Moment& now) {
  const std::optional<Standing> before = window_.told() ? std::optional(window_.told()->standing) : std::nullopt;
  window_.see(facts, now.node_s);
  const std::optional<Verdict>& verdict = window_.told();
  jobs_.see(facts.jobs_cpus, facts.machine_cpus, verdict && verdict->bad(), now.node_s);
  if (verdict && verdict->standing != before) {
    turn_to(condition_of(*verdict).status, now.unix_s);
    const std::optional<EventText> event = config_.events ? event_of(*verdict, warned_) : std::nullopt;
    if (event) events_.note(*event, now);
    if (event) warned_ = event->type == "Warning";
  }
  send_due(now);
}

ClusterReporter::Told ClusterReporter::wanted() const {
  Told told;
  if (config_.condition && window_.told()) told.standing = window_.told()->standing;
  if (config_.batch_cpu) told.millicpus = jobs_.told();
  return told;
}

bool ClusterReporter::status_due(double now_s) const {
  const Told now = wanted();
  if (now == Told{} || !status_lane_.due(now_s)) return false;
  const double since_s = now_s - written_s_;
  if (told_ == Told{} || now.standing != told_.standing) return true;
  if (now.millicpus != told_.millicpus && (now.millicpus == 0U || since_s >= shortest_pause_s)) return true;
  return since_s >= config_.heartbeat_s;
}

void ClusterReporter::send_due(const Moment& now) {
  if (server_.busy()) return;
  if (status_due(now.node_s)) send_status(now);
  if (!server_.busy() && event_lane_.due(now.node_s)) send_event(now);
}

void ClusterReporter::send_status(const Moment& now) {
  on_its_way_ = wanted();
  StatusPatch patch{.condition = std::nullopt, .now_unix_s = now.unix_s, .changed_unix_s = changed_unix_s_, .jobs = {}};
  if (on_its_way_.standing) patch.condition = condition_of(*window_.told());
  if (on_its_way_.millicpus) patch.jobs = JobsResource{on_its_way_.millicpus};
  sending_ = Sending::NodeStatus;
  const Status started = server_.start("PATCH", status_path_, status_body(patch));
  if (!started) settle({ApiResult::Failed, 0, started.error().message}, now);
}

void ClusterReporter::send_event(const Moment& now) {
  auto letter = events_.next(now);
  if (!letter) return;
  event_under_way_ = letter->reason;
  sending_ = Sending::NodeEvent;
  const Status started = server_.start(letter->method, letter->path, std::move(letter->body));
  if (!started) settle({ApiResult::Failed, 0, started.error().message}, now);
}

void ClusterReporter::carry(const Moment& now) {
  const auto answer = server_.progress();
  if (!answer) return;
  settle(*answer, now);
  send_due(now);
}

void ClusterReporter::settle(const ApiAnswer& answer, const Moment& now) {
  ++results_.at(static_cast<std::size_t>(answer.result));
  if (std::exchange(sending_, Sending::None) == Sending::NodeStatus) {
    settle_status(answer, now);
  } else {
    settle_event(answer, now);
  }
}

void ClusterReporter::settle_status(const ApiAnswer& answer, const Moment& now) {
  if (answer.result != ApiResult::Written) {
    complain(status_lane_, "the status of the node", answer, now);
    return;
  }
  told_ = on_its_way_;
  written_s_ = now.node_s;
  if (status_lane_.succeeded()) spdlog::info("the API server takes the status of the node again");
}

void ClusterReporter::settle_event(const ApiAnswer& answer, const Moment& now) {
  constexpr long not_there = 404;
  constexpr long there_already = 409;  // the answer to the same event was lost before
  const bool was_there = events_.there(event_under_way_);
  if (answer.result == ApiResult::Written || (answer.status == there_already && !was_there)) {
    events_.settle(event_under_way_, EventBook::Fate::Written, now.node_s);
    if (event_lane_.succeeded()) spdlog::info("the API server takes events again");
    return;
  }
  const bool gone = answer.status == not_there && was_there;  // forgotten after an hour: it is written anew
  events_.settle(event_under_way_, gone ? EventBook::Fate::Gone : EventBook::Fate::Unknown, now.node_s);
  if (gone) return;
  complain(event_lane_, "events", answer, now);
}

void ClusterReporter::complain(Lane& lane, const std::string& what, const ApiAnswer& answer, const Moment& now) const {
  if (lane.failed(now.node_s, answer.retry_after_s * time_scale_, answer.cause())) {
    spdlog::warn("the agent cannot tell the cluster {}: {}; the node stays managed", what, answer.why);
  }
}

void ClusterReporter::stop(const Moment& now) {
  if (server_.busy()) settle(server_.wait(), now);
  take_away(config_.condition, config_.batch_cpu, now);
}

void ClusterReporter::give_way(ClusterReporter& next, const Moment& now) {
  if (next.config_.url != config_.url || next.config_.node_name != config_.node_name) return stop(now);
  if (server_.busy()) settle(server_.wait(), now);
  next.window_.go_on(window_);
  next.warned_ = warned_;
  const std::optional<Verdict>& told = window_.told();
  if (config_.condition && next.config_.condition) {
    next.status_ = status_;
    next.changed_unix_s_ = changed_unix_s_;
  } else if (told) {
    next.turn_to(condition_of(*told).status, now.unix_s);  // the cluster has another status meanwhile, or none
  }
  take_away(config_.condition && !next.config_.condition, config_.batch_cpu && !next.config_.batch_cpu, now);
}

void ClusterReporter::take_away(bool condition, bool resource, const Moment& now) {
  if (!condition && !resource) return;
  const Condition stopped = stopped_condition();
  turn_to(stopped.status, now.unix_s);
  StatusPatch patch{.condition = std::nullopt, .now_unix_s = now.unix_s, .changed_unix_s = changed_unix_s_, .jobs = {}};
  if (condition) patch.condition = stopped;
  if (resource) patch.jobs = JobsResource{};
  const Status started = server_.start("PATCH", status_path_, status_body(patch));
  const ApiAnswer answer = started ? server_.wait() : ApiAnswer{ApiResult::Failed, 0, started.error().message};
  ++results_.at(static_cast<std::size_t>(answer.result));
  if (answer.result != ApiResult::Written) {
    // The sentence of the answer may promise a later try.
    const bool answered = answer.status != 0 && answer.result != ApiResult::Unreachable;
    const std::string why = answered ? "HTTP " + std::to_string(answer.status) : answer.why;
    spdlog::warn("the agent cannot take back what it reported of node '{}', and does not try again: {}{}",
                 config_.node_name, why, resource ? "; remove osml.dev/batch-millicpu by hand" : "");
  }
}

}  // namespace osml
