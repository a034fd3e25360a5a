// The software regulator at work: a few times a period it reads the traffic of every best-effort group that has a
// budget, and brakes those that have spent it. LC services are never braked: their reservation is what the others
// leave.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bandwidth/brake.h"
#include "bandwidth/budget.h"
#include "base/kept_file.h"
#include "domain/types.h"
#include "locate/place.h"

namespace osml {

class Regulator {
 public:
  // `monitor_group` gives the resctrl group of a service, empty where it has none now. `config` must outlive this.
  Regulator(const Config& config, std::function<std::string(const std::string&)> monitor_group);
  Regulator(const Regulator&) = delete;
  Regulator& operator=(const Regulator&) = delete;
  Regulator(Regulator&&) = delete;
  Regulator& operator=(Regulator&&) = delete;
  ~Regulator() { release(); }

  // Budgets in MB/s, as they stand on the machine; a service without one is let go. One that `places` does not name is
  // where the configuration says.
  void follow(const std::vector<Assignment>& assignments, const std::vector<Place>& places = {});
  // Node time.
  void poll(double now_s);
  // Everybody goes on: at the end.
  void release();

 private:
  struct Group {
    Group(Match where, Brake how, double period_s) : match(std::move(where)), brake(std::move(how)), budget(period_s) {}
    Match match;
    Brake brake;
    Budget budget;
    std::vector<KeptFile> counters;
    std::vector<std::uint64_t> totals;  // of each counter, as read last
    std::uint64_t moved = 0;            // since the first reading
    std::string directory;
    std::vector<std::string> names;  // in its mon_data, at the last look
    double looked_s = 0;
    bool standing = false;
    bool blind = false;  // told that its traffic cannot be read
    bool free = false;   // told that it cannot be stopped
  };
  // The counters of all domains; domains may come online.
  void open(const std::string& service, Group& group, double now_s);
  // What the group has moved; a counter that fell was reset, and counts again from the next look.
  static std::optional<std::uint64_t> total_bytes(Group& group);
  void let_go(const std::string& service, Group& group);

  const Config* config_;
  std::function<std::string(const std::string&)> monitor_group_;
  std::map<std::string, std::unique_ptr<Group>> groups_;
};

}  // namespace osml
