#include "sense/sensors.h"

#include <algorithm>

#include "cpu/members.h"
#include "telemetry/latency_sources.h"

namespace osml {

namespace {

// All metrics endpoints together may take this share of the interval; the decision needs the rest.
constexpr double endpoint_share = 0.25;
constexpr double longest_endpoint_wait_s = 0.5;

template <class T>
void prefer(std::optional<T>& value, const std::optional<T>& better) {
  if (better) value = better;
}

// What a telemetry file says of a job is meant: it wins over the kernel's counters.
void overlay(Counters& counters, const Counters& said) {
  prefer(counters.cpu_usage_cores, said.cpu_usage_cores);
  prefer(counters.throttled_s, said.throttled_s);
  prefer(counters.threads, said.threads);
  prefer(counters.instructions, said.instructions);
  prefer(counters.cycles, said.cycles);
  prefer(counters.ipc, said.ipc);
  prefer(counters.llc_misses, said.llc_misses);
  prefer(counters.llc_occupancy_mib, said.llc_occupancy_mib);
  prefer(counters.bandwidth_gbps, said.bandwidth_gbps);
  prefer(counters.bandwidth_total_gbps, said.bandwidth_total_gbps);
  prefer(counters.frequency_ghz, said.frequency_ghz);
  prefer(counters.rss_mib, said.rss_mib);
  prefer(counters.vms_mib, said.vms_mib);
  prefer(counters.work_rate, said.work_rate);
}

}  // namespace

Sensors::Sensors(const Config& config, const CpuSet& cpus, MonitorGroup monitor_group, TelemetrySockets* sockets,
                 WhileWaiting meanwhile)
    : config_(&config),
      cpus_(cpus),
      monitor_group_(std::move(monitor_group)),
      sockets_(sockets),
      frequency_(config.roots.sysfs, cpus),
      host_(config.roots.proc, cpus),
      scrape_(std::make_shared<MetricsScrape>(
          std::min(longest_endpoint_wait_s, endpoint_share * config.interval_s / config.time_scale),
          std::move(meanwhile))) {
  probe_machine();
  for (const ServiceConfig& service : config.services) watched_.push_back(watch(service));
}

void Sensors::probe_machine() {
  if (!frequency_.available()) missing_here_["frequency"] = "sysfs has no cpufreq for the CPUs of this node";
  if (!host_.has_pressure()) {
    missing_here_["pressure"] = "the kernel has no pressure stall information; boot it with psi=1";
  }
  // Process ids of another /proc (a virtual node) are not those of this kernel: we would count strangers.
  if (config_->roots.proc != "/proc") {
    missing_here_["perf_events"] = "roots.proc is not /proc: its tasks do not run on this kernel";
  } else if (const Status probed = probe_perf(hardware_events()); !probed) {
    missing_here_["perf_events"] = probed.error().message;
  }
}

std::shared_ptr<TelemetryFile> Sensors::telemetry(const fs::path& path, double max_age_s) {
  auto& file = telemetry_[{path, max_age_s}];
  if (!file) file = std::make_shared<TelemetryFile>(path, max_age_s, config_->time_scale);
  return file;
}

Sensors::Watched Sensors::watch(const ServiceConfig& service) {
  Watched watched{
      service, service.match, {}, UsageSensor(config_->roots, service.match), RunDelaySensor(config_->roots.proc), {},
      nullptr, nullptr,       {}};
  const double max_age_s = max_age_of(service.latency, config_->interval_s);
  if (service.latency && service.latency->file) {
    watched.latency = std::make_unique<FileLatency>(telemetry(*service.latency->file, max_age_s));
  } else if (service.latency && service.latency->prometheus) {
    watched.latency = std::make_unique<PrometheusLatency>(*service.latency->prometheus, scrape_);
  }
  if (service.latency && service.latency->datagram) {
    watched.latency = std::make_unique<DatagramLatency>(sockets_, *service.latency->datagram,
                                                        service.latency->datagram_mode, max_age_s, config_->time_scale);
  }
  if (service.counters_file) watched.counters = telemetry(*service.counters_file, max_age_s);
  if (!missing_here_.contains("perf_events")) watched.perf = std::make_unique<PerfCounters>(hardware_events());
  return watched;
}

void Sensors::follow_services() {
  const auto is_of = [](const Watched& watched, const ServiceConfig& service) { return watched.config == service; };
  if (std::equal(watched_.begin(), watched_.end(), config_->services.begin(), config_->services.end(), is_of)) return;
  std::vector<Watched> now;
  for (const ServiceConfig& service : config_->services) {
    const auto known =
        std::find_if(watched_.begin(), watched_.end(), [&](const Watched& watched) { return is_of(watched, service); });
    now.push_back(known == watched_.end() ? watch(service) : std::move(*known));
  }
  watched_ = std::move(now);
  if (sockets_ != nullptr) sockets_->drop_unused();
}

void Sensors::read_perf(Watched& watched, Service& service, std::map<std::string, std::string>& missing) {
  if (!watched.perf) return;
  auto tids = member_tids(config_->roots, watched.match);
  const Status read = watched.perf->read(tids ? *tids : std::vector<pid_t>{}, service.counters);
  if (!read) missing["perf_events." + service.name] = read.error().message;
}

void Sensors::read_run_delay(Watched& watched, Service& service, std::map<std::string, std::string>& missing) const {
  const auto tids = member_tids(config_->roots, watched.match);
  const auto waited = watched.run_delay.read(tids ? *tids : std::vector<pid_t>{});
  if (!watched.run_delay.why().empty()) missing["run_delay." + service.name] = watched.run_delay.why();
  if (!waited) return;
  service.counters.run_delay_s = waited->delay_s;
  service.counters.switches = waited->switches;
}

std::optional<double> Sensors::frequency(const std::string& service, const std::vector<Assignment>& assignments,
                                         const Interval& interval) {
  for (const Assignment& assignment : assignments) {
    if (assignment.service != service || !assignment.cpus) continue;
    if (const auto cpus = parse_cpulist(*assignment.cpus)) return frequency_.mean_ghz(*cpus, interval);
  }
  return frequency_.mean_ghz(cpus_, interval);
}

void Sensors::measure(Watched& watched, const Interval& interval, Service& service,
                      std::map<std::string, std::string>& missing) {
  if (const Status usage = watched.usage.read(interval, service.counters); !usage) {
    missing["cpu_usage." + service.name] = usage.error().message;
  }
  if (watched.config.spec.kind == "lc") read_run_delay(watched, service, missing);
  watched.cache.read(monitor_group_(service.name), interval, service.counters);
  read_perf(watched, service, missing);
  if (!watched.counters) return;
  const Result<TelemetryReading> said = watched.counters->read_since(interval, watched.known);
  if (said) {
    overlay(service.counters, said->sample.counters);
    for (const Amount amount : said->silent) (service.counters.*amount).reset();
  } else {
    missing["counters." + service.name] = said.error().message;
    if (said.error().kind == ErrorKind::Gone) return;
    for (const Amount amount : watched.counters->amounts()) (service.counters.*amount).reset();
  }
}

void Sensors::listen(Watched& watched, const Interval& interval, Service& service,
                     std::map<std::string, std::string>& missing) {
  if (!watched.latency) return;
  auto latency = watched.latency->read(interval);
  if (!latency) {
    missing["latency." + service.name] = latency.error().message;
    return;
  }
  service.latency = *latency;
  if (service.target_ms && !latency_at_target(service)) {
    missing["latency." + service.name] =
        "the latency has no " + service.percentile + "_ms, the percentile of the target; send it, or set percentile";
  }
}

void Sensors::follow(Watched& watched, const Place& place) const {
  if (watched.match == place.match && watched.cgroup_inode == place.cgroup_inode) return;
  const bool elsewhere = watched.match != place.match || watched.cgroup_inode;
  watched.match = place.match;
  watched.cgroup_inode = place.cgroup_inode;
  if (elsewhere) start_anew(watched);
}

void Sensors::start_anew(Watched& watched) const {
  watched.usage = UsageSensor(config_->roots, watched.match);
  watched.run_delay = RunDelaySensor(config_->roots.proc);
  watched.cache = {};
  if (watched.perf) watched.perf = std::make_unique<PerfCounters>(hardware_events());
}

void Sensors::forget(Watched& watched, const Interval& interval) const {
  start_anew(watched);
  if (watched.latency) watched.latency->forget(interval);
  if (!watched.counters) return;
  (void)watched.counters->read(interval);
  watched.known = watched.counters->news();
}

std::vector<Service> Sensors::read(const Interval& interval, const std::vector<Assignment>& assignments,
                                   const std::vector<Place>& places, std::map<std::string, std::string>& missing) {
  missing.insert(missing_here_.begin(), missing_here_.end());
  follow_services();
  only_watched_.clear();
  std::vector<Service> services;
  services.reserve(watched_.size());
  only_watched_.reserve(watched_.size());
  std::vector<std::pair<Watched*, Service*>> there;
  for (Watched& watched : watched_) {
    bool only_watched = false;
    if (const Place* place = place_of(places, watched.config.spec.name)) {
      if (place->absent && !place->watched) {
        forget(watched, interval);
        continue;
      }
      only_watched = place->watched;
      follow(watched, *place);
    }
    Service& service = (only_watched ? only_watched_ : services).emplace_back(watched.config.spec);
    service.counters.frequency_ghz = frequency(service.name, assignments, interval);
    measure(watched, interval, service, missing);
    there.emplace_back(&watched, &service);
  }
  // Counters go on while endpoints are waited for, the kernel's and those in files: all of them are read before.
  for (const auto& [watched, service] : there) listen(*watched, interval, *service, missing);
  return services;
}

}  // namespace osml
