// Tells the cluster how this node is: a condition, events and a resource for jobs. Nothing here waits but stop(), and
// nothing that goes wrong here touches the control loop.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "kubernetes/api_server.h"
#include "kubernetes/event_book.h"
#include "kubernetes/jobs_cpu.h"
#include "kubernetes/lane.h"
#include "kubernetes/verdict.h"

namespace osml {

// By ApiResult, and the events that went into others.
struct ReportCounts {
  std::array<std::uint64_t, report_results> results{};
  std::uint64_t merged = 0;
};

class ClusterReporter {
 public:
  ClusterReporter(const KubernetesConfig& config, double interval_s, double time_scale);

  // Readable whenever carry() has something to do.
  [[nodiscard]] int fd() const { return server_.fd(); }
  // Once a turn: sends what is due.
  void see(const ClusterFacts& facts, const Moment& now);
  void carry(const Moment& now);
  [[nodiscard]] bool under_way() const { return server_.busy(); }
  // The agent goes: says so, and takes the resource away. Waits at most twice kubernetes.timeout_s.
  void stop(const Moment& now);
  // At a reload, when `next` goes on: of the same node only what it does not tell any more is taken away. The verdict
  // goes to it, and it tells that at once. Waits as stop() does.
  void give_way(ClusterReporter& next, const Moment& now);
  [[nodiscard]] ReportCounts counts() const;

 private:
  enum class Sending { None, NodeStatus, NodeEvent };
  void send_due(const Moment& now);
  [[nodiscard]] bool status_due(double now_s) const;
  void send_status(const Moment& now);
  void send_event(const Moment& now);
  void settle(const ApiAnswer& answer, const Moment& now);
  void settle_status(const ApiAnswer& answer, const Moment& now);
  void settle_event(const ApiAnswer& answer, const Moment& now);
  void complain(Lane& lane, const std::string& what, const ApiAnswer& answer, const Moment& now) const;
  void turn_to(const std::string& status, double unix_s);
  void take_away(bool condition, bool resource, const Moment& now);

  KubernetesConfig config_;
  double time_scale_;
  std::string status_path_;
  ApiServer server_;
  VerdictWindow window_;
  JobsCpu jobs_;
  EventBook events_;
  Lane status_lane_;
  Lane event_lane_;
  Sending sending_ = Sending::None;
  std::string event_under_way_;  // its reason
  bool warned_ = false;          // the last event was a warning
  std::string status_;           // of the condition
  double changed_unix_s_ = 0;    // when that changed
  // What the API server has, and what is on its way there.
  struct Told {
    std::optional<Standing> standing;
    std::optional<std::uint64_t> millicpus;
    bool operator==(const Told&) const = default;
  };
  [[nodiscard]] Told wanted() const;
  Told told_;
  Told on_its_way_;
  double written_s_ = 0;
  std::array<std::uint64_t, report_results> results_{};
};

}  // namespace osml
