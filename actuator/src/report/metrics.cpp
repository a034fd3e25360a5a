#include "report/metrics.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/number.h"
#include "base/units.h"
#include "report/self_usage.h"

namespace osml {

namespace {

constexpr std::array<const char*, 4> failure_names = {"unreachable", "busy", "refused", "broken"};
constexpr std::array<const char*, kernel_works> kernel_names = {"read", "reconcile", "apply", "restore"};
constexpr std::array<const char*, 3> state_names = {"deciding", "holding", "fallback"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// One family after the other; every sample carries the node.
class Writer {
 public:
  explicit Writer(const std::string& node) : node_("node=\"" + escaped(node) + "\"") {}

  Writer& family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "osml_agent_" + std::string(name);
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name_, type, help);
    return *this;
  }
  Writer& sample(double value, const std::string& labels = {}) { return sample_of("", value, labels); }
  Writer& sample_of(std::string_view suffix, double value, const std::string& labels = {}) {
    text_ += fmt::format("{}{}{{{}{}{}}} {}\n", name_, suffix, node_, labels.empty() ? "" : ",", labels,
                         format_number(value));
    return *this;
  }
  void counter(std::string_view name, std::string_view help, double value) {
    family(name, "counter", help).sample(value);
  }
  void gauge(std::string_view name, std::string_view help, double value) { family(name, "gauge", help).sample(value); }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string node_;
  std::string name_;
  std::string text_;
};

std::string label(std::string_view name, const std::string& value) {
  return fmt::format("{}=\"{}\"", name, escaped(value));
}

double number(std::uint64_t count) { return static_cast<double>(count); }
double number(const Growth& growth) { return number(growth.total()); }

template <std::size_t n, class Values>
void by_label(Writer& out, std::string_view name, const std::array<const char*, n>& names, const Values& values) {
  for (std::size_t i = 0; i < n; ++i) out.sample(number(values.at(i)), label(name, names.at(i)));
}

}  // namespace

void AgentMetrics::turn(const TurnReport& report, double unix_s, double took_s, std::uint64_t skipped) {
  ++turns_;
  skipped_ += skipped;
  turn_s_ += took_s;
  last_turn_unix_s_ = unix_s;
  if (report.outcome) ++outcomes_[report.outcome->status];
  if (report.failure) {
    ++failures_.at(static_cast<std::size_t>(*report.failure));
  } else if (!report.idle) {
    last_decision_unix_s_ = unix_s;
  }
  for (std::size_t i = 0; i < kernel_works; ++i) kernel_.at(i) += report.kernel.at(i);
  if (report.fell_back) ++fallbacks_;
  if (report.changed_by_others) ++changed_by_others_;
  if (report.server_ms) {
    constexpr double s_per_ms = 1e-3;
    ++answers_;
    answers_s_ += *report.server_ms * s_per_ms;
  }
  for (const auto& [service, waited_s] : report.run_delay_s) run_delay_s_[service] += waited_s;
  moved_interrupts_.see(report.interrupts.moved_by_others);
  last_ = report;
}

void AgentMetrics::see(const Config& config, const TelemetrySockets& sockets, const ExperienceOutbox* outbox) {
  interval_s_ = config.interval_s / config.time_scale;
  services_.clear();
  for (const ServiceConfig& service : config.services) services_.push_back(service.spec.name);
  waiting_ = outbox == nullptr ? 0 : outbox->buffer().size();
  if (outbox != nullptr) {
    sent_.see(outbox->courier().sent());
    dropped_.see(outbox->buffer().dropped());
    refused_.see(outbox->courier().refused());
  }
  for (const ServiceConfig& service : config.services) {
    if (!service.latency || !service.latency->datagram) continue;
    Datagrams& seen = datagrams_[service.spec.name];
    if (const TelemetrySocket* socket = sockets.find(*service.latency->datagram)) {
      seen.read.see(socket->received() - socket->ignored());
      seen.ignored.see(socket->ignored());
    }
  }
}

void AgentMetrics::see(const PodFinder::Calls* calls) {
  kubelet_up_ = calls != nullptr && calls->up;
  if (calls == nullptr) return;
  kubelet_good_.see(calls->good);
  kubelet_failed_.see(calls->failed);
}

void AgentMetrics::see(const TargetBook& targets, const TargetLister* lister) {
  targets_ = targets.targets().size();
  refused_targets_ = targets.refused().size();
  targets_up_ = lister != nullptr && lister->counts().up;
  if (lister == nullptr) return;
  targets_good_.see(lister->counts().good);
  targets_failed_.see(lister->counts().failed);
}

void AgentMetrics::see(const ReportCounts& counts) {
  for (std::size_t i = 0; i < report_results; ++i) cluster_reports_.at(i).see(counts.results.at(i));
  merged_events_.see(counts.merged);
}

void AgentMetrics::see(const Discovered& discovered) {
  found_services_ = discovered.services.size();
  refused_pods_ = discovered.refused.size();
  for (const ServiceConfig& service : discovered.services) of_pods_.insert(service.spec.name);
  // Whoever makes pods makes names of services: what is gone shall not stay for ever.
  std::erase_if(of_pods_, [this](const std::string& name) {
    if (std::find(services_.begin(), services_.end(), name) != services_.end()) return false;
    run_delay_s_.erase(name);
    datagrams_.erase(name);
    return true;
  });
}

std::string AgentMetrics::text(const std::string& node, bool up, bool dry_run) const {
  Writer out(node);
  out.family("info", "gauge", "Version of the agent in the label version; the value is 1.")
      .sample(1, label("version", OSML_VERSION));
  out.gauge("up", "1 while the agent runs, 0 after a stop, also by an error.", up ? 1 : 0);
  out.gauge("dry_run", "1 if the agent only reports what it would change.", dry_run ? 1 : 0);
  out.gauge("start_time_seconds", "Start time of the agent, Unix time.", start_unix_s_);
  out.gauge("services", "Services, those of the configuration and those that pods ask for.", number(services_.size()));
  out.gauge("services_of_pods", "Services that pods ask for by annotations, or that a LatencyTarget asks for.",
            number(found_services_));
  out.gauge("pods_refused", "Pods that are refused the service that is asked for them.", number(refused_pods_));
  out.family("service_absent", "gauge", "1 if the service is not there: no cgroup, no process.");
  // Not of services that a reload added since: nobody has looked for them yet.
  for (const std::string& service : last_.services) {
    const bool absent = std::find(last_.absent.begin(), last_.absent.end(), service) != last_.absent.end();
    out.sample(absent ? 1 : 0, label("service", service));
  }
  out.family("service_watched", "gauge", "1 if the service has no latency source, so the agent does not manage it.");
  for (const std::string& service : last_.services) {
    const bool watched = std::find(last_.watched.begin(), last_.watched.end(), service) != last_.watched.end();
    out.sample(watched ? 1 : 0, label("service", service));
  }
  out.gauge("kubelet_up", "1 if the last request to the kubelet succeeded; 0 if it failed, or is not asked.",
            kubelet_up_ ? 1 : 0);
  out.family("kubelet_requests_total", "counter", "Requests to the kubelet for its pods.")
      .sample(number(kubelet_good_.total()), label("status", "good"))
      .sample(number(kubelet_failed_.total()), label("status", "failed"));
  out.gauge("latency_targets", "LatencyTargets in force, of all nodes.", number(targets_));
  out.gauge("latency_targets_refused", "LatencyTargets that the agent cannot read.", number(refused_targets_));
  out.gauge("latency_targets_up", "1 if the last list of LatencyTargets came whole; 0 if not, or if none is asked for.",
            targets_up_ ? 1 : 0);
  out.family("latency_target_requests_total", "counter", "Requests to the API server for LatencyTargets.")
      .sample(number(targets_good_.total()), label("status", "good"))
      .sample(number(targets_failed_.total()), label("status", "failed"));
  out.family("kubernetes_reports_total", "counter", "Requests to the API server that tell how the node is, by result.");
  by_label(out, "result", report_names, cluster_reports_);
  out.counter("kubernetes_events_merged_total", "Events that went into another event, because too many came.",
              number(merged_events_.total()));
  out.counter("turns_total", "Completed control intervals.", number(turns_));
  out.counter("turns_skipped_total", "Control intervals that were skipped because the previous one took too long.",
              number(skipped_));
  out.family("turn_seconds", "summary",
             "Wall time of the work of a control interval, including the answer of the server.")
      .sample_of("_sum", turn_s_)
      .sample_of("_count", number(turns_));
  out.gauge("last_turn_time_seconds", "Time of the last completed control interval, Unix time; 0 before the first.",
            last_turn_unix_s_);
  out.gauge("interval_seconds", "Time from one control interval to the next, as configured.", interval_s_);
  out.gauge("last_decision_time_seconds", "Time of the last decision of the server, Unix time; 0 before the first.",
            last_decision_unix_s_.value_or(0));
  out.family("state", "gauge", "1 for the current state: deciding, holding the last allocation, or fallback.");
  for (std::size_t i = 0; i < state_names.size(); ++i) {
    out.sample(up && static_cast<std::size_t>(last_.state) == i ? 1 : 0, label("state", state_names.at(i)));
  }
  out.counter("fallbacks_total", "Times that the server sent no decision for longer than hold_s.", number(fallbacks_));
  out.family("decisions_total", "counter", "Decisions by outcome, including those of the fallback even.");
  for (const OutcomeName& name : outcome_names) {
    const auto found = outcomes_.find(name.status);
    out.sample(found == outcomes_.end() ? 0 : number(found->second), label("outcome", std::string(name.text)));
  }
  out.family("no_decision_total", "counter", "Control intervals without a decision, by reason.");
  by_label(out, "reason", failure_names, failures_);
  out.family("server_seconds", "summary", "Wall time of requests to the server, including failed requests.")
      .sample_of("_sum", answers_s_)
      .sample_of("_count", number(answers_));
  out.family("kernel_errors_total", "counter", "Errors of kernel files, by the work that failed.");
  by_label(out, "work", kernel_names, kernel_);
  out.counter("changed_by_others_total", "Times that another program changed a setting of the agent.",
              number(changed_by_others_));
  out.gauge("interrupts_kept_away", "Interrupts that the agent keeps off the CPUs of services.",
            number(last_.interrupts.kept_away));
  out.gauge("interrupts_fixed", "Interrupts that the kernel lets nobody move.", number(last_.interrupts.fixed));
  out.counter("interrupts_moved_by_others_total",
              "Interrupts that came back to CPUs of services, and the agent set again.", number(moved_interrupts_));
  out.gauge("infeasible", "1 if the policy reports that this node cannot satisfy its services.",
            last_.infeasible ? 1 : 0);
  out.gauge("missing", "Measurements and mechanisms that are missing now.", number(last_.missing.size()));
  out.family("missing_info", "gauge", "1 for each measurement or mechanism that is missing now.");
  for (const std::string& what : last_.missing) out.sample(1, label("what", what));
  out.family("steal_ratio", "gauge", "Share of CPU time that the hypervisor gave to others in the last interval.");
  if (last_.host.steal) out.sample(*last_.host.steal);
  out.family("pressure_ratio", "gauge", "Share of the last interval in which a task of the machine waited.");
  for (const auto& [resource, share] :
       {std::pair{"cpu", last_.host.cpu_pressure}, std::pair{"memory", last_.host.memory_pressure},
        std::pair{"io", last_.host.io_pressure}}) {
    if (share) out.sample(*share, label("resource", resource));
  }
  out.family("run_delay_seconds_total", "counter", "Time in which threads of the service were ready and had no CPU.");
  for (const auto& [service, waited_s] : run_delay_s_) out.sample(waited_s, label("service", service));
  out.family("experiences_total", "counter",
             "Experiences by status: sent, dropped by the agent, or refused by the server.")
      .sample(number(sent_.total()), label("status", "sent"))
      .sample(number(dropped_.total()), label("status", "dropped"))
      .sample(number(refused_.total()), label("status", "refused"));
  out.gauge("experiences_waiting", "Experiences that are not sent yet.", number(waiting_));
  out.family("datagrams_total", "counter", "Datagrams of services: read, or ignored because they are invalid.");
  for (const auto& [service, seen] : datagrams_) {
    out.sample(number(seen.read.total()), label("service", service) + ",status=\"read\"");
    out.sample(number(seen.ignored.total()), label("service", service) + ",status=\"ignored\"");
  }
  out.family("reloads_total", "counter", "Reloads of the configuration.")
      .sample(number(reloads_taken_), label("status", "taken"))
      .sample(number(reloads_refused_), label("status", "refused"));
  out.counter("cpu_seconds_total", "CPU time of the agent.", process_cpu_s());
  if (const auto rss_mib = resident_mib()) {
    out.gauge("resident_memory_bytes", "Memory of the agent.", *rss_mib * bytes_per_mib);
  }
  return out.take();
}

}  // namespace osml
