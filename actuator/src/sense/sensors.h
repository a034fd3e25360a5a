// All sensors of a node: once an interval, every service's latency and counters, and why something is missing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "client/http.h"
#include "config/config.h"
#include "domain/types.h"
#include "locate/place.h"
#include "sense/cache_monitor.h"
#include "sense/frequency.h"
#include "sense/host.h"
#include "sense/perf_counters.h"
#include "sense/run_delay.h"
#include "sense/usage.h"
#include "telemetry/latency_sensor.h"
#include "telemetry/telemetry_file.h"
#include "telemetry/telemetry_socket.h"

namespace osml {

class MetricsScrape;

class Sensors {
 public:
  // Service -> directory of its resctrl group, empty where it has none (yet).
  using MonitorGroup = std::function<std::string(const std::string&)>;

  // `cpus`: those of the platform. `config` must outlive the sensors; its services may change between two readings.
  // `sockets`, which outlives the sensors too, has those of the latencies that are sent; none: they are missing.
  // `meanwhile` goes on while metrics endpoints are waited for.
  Sensors(const Config& config, const CpuSet& cpus, MonitorGroup monitor_group, TelemetrySockets* sockets = nullptr,
          WhileWaiting meanwhile = {});

  // The services that are there with what was measured of them; one that `places` does not name is where the
  // configuration says. `assignments` as read back (their CPUs have a frequency). Reasons go into `missing`, keyed
  // "latency.moses", "perf_events", "frequency", ...
  std::vector<Service> read(const Interval& interval, const std::vector<Assignment>& assignments,
                            const std::vector<Place>& places, std::map<std::string, std::string>& missing);
  // Services that are only watched, as the last read() found them.
  [[nodiscard]] const std::vector<Service>& watched() const { return only_watched_; }
  // The whole machine in this interval.
  Host read_host(const Interval& interval) { return host_.read(interval); }

 private:
  struct Watched {
    ServiceConfig config;  // a copy: the list changes with the pods that ask for services
    Match match;
    std::optional<std::uint64_t> cgroup_inode;
    UsageSensor usage;
    RunDelaySensor run_delay;
    CacheMonitor cache;
    std::unique_ptr<LatencySensor> latency;   // none for most best-effort jobs
    std::shared_ptr<TelemetryFile> counters;  // none where the kernel's counters are all there is
    std::unique_ptr<PerfCounters> perf;       // none where this machine has none
    std::optional<std::uint64_t> known = {};  // news of `counters` when the service was away last
  };

  std::shared_ptr<TelemetryFile> telemetry(const fs::path& path, double max_age_s);
  Watched watch(const ServiceConfig& service);
  // The list of services may be another one than in the interval before; who stays as it is loses nothing.
  void follow_services();
  // Counters of another cgroup or process start anew.
  void follow(Watched& watched, const Place& place) const;
  void start_anew(Watched& watched) const;
  // Of a service that is not there in this interval.
  void forget(Watched& watched, const Interval& interval) const;
  void probe_machine();
  // What the kernel and the service's own file count.
  void measure(Watched& watched, const Interval& interval, Service& service,
               std::map<std::string, std::string>& missing);
  // The latency; waits for the service's metrics endpoint.
  static void listen(Watched& watched, const Interval& interval, Service& service,
                     std::map<std::string, std::string>& missing);
  void read_run_delay(Watched& watched, Service& service, std::map<std::string, std::string>& missing) const;
  void read_perf(Watched& watched, Service& service, std::map<std::string, std::string>& missing);
  std::optional<double> frequency(const std::string& service, const std::vector<Assignment>& assignments,
                                  const Interval& interval);

  const Config* config_;
  CpuSet cpus_;
  MonitorGroup monitor_group_;
  TelemetrySockets* sockets_;
  FrequencySensor frequency_;
  HostSensor host_;
  std::shared_ptr<MetricsScrape> scrape_;
  std::map<std::string, std::string> missing_here_;  // what the whole machine does not have
  // A file that two services share is read by each where they differ in how old it may be.
  std::map<std::pair<fs::path, double>, std::shared_ptr<TelemetryFile>> telemetry_;
  std::vector<Watched> watched_;
  std::vector<Service> only_watched_;
};

}  // namespace osml
