// The agent's own figures for Prometheus, by way of node_exporter's textfile collector: the agent opens no port. They
// belong to the process, not to a configuration, so that no counter falls over a reload. Every series is there from
// the start, at zero; only what is missing at the moment has series that come and go.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "experience/outbox.h"
#include "kubernetes/reporter.h"
#include "kubernetes/target_lister.h"
#include "locate/discovery.h"
#include "locate/pod_finder.h"
#include "report/turn_report.h"
#include "telemetry/telemetry_socket.h"

namespace osml {

// A total that goes on where its source begins at zero again.
class Growth {
 public:
  void see(std::uint64_t now) {
    total_ += now >= last_ ? now - last_ : now;
    last_ = now;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  std::uint64_t last_ = 0;
  std::uint64_t total_ = 0;
};

class AgentMetrics {
 public:
  explicit AgentMetrics(double unix_s) : start_unix_s_(unix_s) {}

  // After every turn. `unix_s`: wall clock; `skipped`: turns that came too late for this one.
  void turn(const TurnReport& report, double unix_s, double took_s, std::uint64_t skipped);
  void reloaded(bool taken) { ++(taken ? reloads_taken_ : reloads_refused_); }
  // `calls`: of the kubelet; none where it is not asked.
  void see(const PodFinder::Calls* calls);
  void see(const Discovered& discovered);
  // `lister`: none where LatencyTargets are not asked for. It counts from zero.
  void see(const TargetBook& targets, const TargetLister* lister);
  // Of one reporter, which counts from zero.
  void see(const ReportCounts& counts);
  // What others count. No outbox: no experiences are sent at the moment.
  void see(const Config& config, const TelemetrySockets& sockets, const ExperienceOutbox* outbox);
  // Prometheus' text format. `up` is false in the last text of an agent that stops in order.
  [[nodiscard]] std::string text(const std::string& node, bool up, bool dry_run) const;

 private:
  struct Datagrams {
    Growth read, ignored;
  };

  double start_unix_s_;
  std::uint64_t turns_ = 0;
  std::uint64_t skipped_ = 0;
  double turn_s_ = 0;
  double last_turn_unix_s_ = 0;
  double interval_s_ = 0;
  std::optional<double> last_decision_unix_s_;
  std::map<OutcomeStatus, std::uint64_t> outcomes_;
  std::array<std::uint64_t, 4> failures_{};  // by AskFailure
  std::array<std::uint64_t, kernel_works> kernel_{};
  std::uint64_t fallbacks_ = 0;
  std::uint64_t changed_by_others_ = 0;
  std::uint64_t answers_ = 0;
  double answers_s_ = 0;
  std::uint64_t reloads_taken_ = 0;
  std::uint64_t reloads_refused_ = 0;
  std::map<std::string, double> run_delay_s_;
  TurnReport last_;
  std::vector<std::string> services_;
  Growth sent_, dropped_, refused_;
  std::size_t waiting_ = 0;
  Growth kubelet_good_, kubelet_failed_;
  std::array<Growth, report_results> cluster_reports_;
  Growth merged_events_;
  Growth moved_interrupts_;
  bool kubelet_up_ = false;
  std::set<std::string> of_pods_;  // services that pods ask for, or asked for and have series yet
  std::size_t found_services_ = 0;
  std::size_t refused_pods_ = 0;
  bool targets_up_ = false;
  Growth targets_good_, targets_failed_;
  std::size_t targets_ = 0;
  std::size_t refused_targets_ = 0;
  std::map<std::string, Datagrams> datagrams_;  // by service
};

}  // namespace osml
