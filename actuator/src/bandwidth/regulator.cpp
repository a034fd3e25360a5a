#include "bandwidth/regulator.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "resctrl/monitor.h"

namespace osml {

namespace {

constexpr double bytes_per_mb = 1e6;

const ServiceConfig* best_effort(const Config& config, const std::string& name) {
  const auto found = std::find_if(config.services.begin(), config.services.end(), [&](const ServiceConfig& service) {
    return service.spec.name == name && service.spec.kind == "be";
  });
  return found == config.services.end() ? nullptr : &*found;
}

}  // namespace

Regulator::Regulator(const Config& config, std::function<std::string(const std::string&)> monitor_group)
    : config_(&config), monitor_group_(std::move(monitor_group)) {}

void Regulator::follow(const std::vector<Assignment>& assignments, const std::vector<Place>& places) {
  std::map<std::string, Match> wanted;
  for (const Assignment& assignment : assignments) {
    const ServiceConfig* service = best_effort(*config_, assignment.service);
    if (service == nullptr || !assignment.mba) continue;
    const Place* place = place_of(places, assignment.service);
    wanted[assignment.service] = place == nullptr ? service->match : place->match;
  }
  std::erase_if(groups_, [&](auto& known) {
    const auto stays = wanted.find(known.first);
    if (stays != wanted.end() && stays->second == known.second->match) return false;
    let_go(known.first, *known.second);
    return true;
  });
  for (const Assignment& assignment : assignments) {
    const auto place = wanted.find(assignment.service);
    if (place == wanted.end()) continue;
    auto& group = groups_[assignment.service];
    if (!group) {
      const Match& match = place->second;
      group = std::make_unique<Group>(match, Brake(config_->roots, assignment.service, match),
                                      config_->bandwidth.period_ms / 1000);
      // An agent that was killed may have left it standing still.
      if (Status gone_on = group->brake.release(); !gone_on) spdlog::warn("regulator: {}", gone_on.error().message);
    }
    group->budget.set_limit(*assignment.mba * bytes_per_mb);
  }
}

void Regulator::open(const std::string& service, Group& group, double now_s) {
  const std::string directory = monitor_group_(service);
  const bool known = directory == group.directory && !group.counters.empty();
  if (known && now_s - group.looked_s < resctrl::seconds_between_looks) return;
  group.looked_s = now_s;
  std::vector<std::string> names;
  if (!directory.empty()) {
    if (auto listed = list_directory(fs::path(directory) / "mon_data")) names = std::move(*listed);
  }
  if (known && names == group.names) return;
  group.directory = directory;
  group.names = names;
  group.counters.clear();
  group.totals.clear();
  group.budget.forget();
  for (const std::string& domain : names) {
    if (!domain.starts_with("mon_L3_")) continue;
    const fs::path data = fs::path(directory) / "mon_data" / domain;
    group.counters.emplace_back(data / resctrl::traffic_event(data));
  }
}

std::optional<std::uint64_t> Regulator::total_bytes(Group& group) {
  if (group.counters.empty()) return std::nullopt;
  std::vector<std::uint64_t> totals;
  for (KeptFile& counter : group.counters) {
    const auto text = counter.read();
    const auto reading = text ? resctrl::parse_reading(*text) : resctrl::Reading{};
    if (reading.state != resctrl::ReadingState::Value) {
      group.counters.clear();  // looked for anew at the next poll
      return std::nullopt;
    }
    totals.push_back(reading.value);
  }
  const bool first = group.totals.size() != totals.size();
  for (std::size_t i = 0; i < totals.size() && !first; ++i) {
    // each by itself: the growth of the others may be more than what a reset takes
    if (totals[i] > group.totals[i]) group.moved += totals[i] - group.totals[i];
  }
  group.totals = std::move(totals);
  return group.moved;
}

void Regulator::poll(double now_s) {
  for (auto& [service, group] : groups_) {
    open(service, *group, now_s);
    const auto bytes = total_bytes(*group);
    if (!bytes) {
      if (!group->blind)
        spdlog::warn("regulator: the memory traffic of service '{}' cannot be read; the service is not limited",
                     service);
      group->blind = true;
      group->budget.forget();
      let_go(service, *group);
      continue;
    }
    group->blind = false;
    if (!group->budget.spent(now_s, *bytes)) {
      let_go(service, *group);
    } else if (!group->standing) {
      const auto stopped = group->brake.engage();
      if (!stopped && !group->free) {
        spdlog::warn("regulator: service '{}' is not limited: {}", service, stopped.error().message);
      }
      group->free = !stopped.ok();
      group->standing = stopped && *stopped;
    }
  }
}

void Regulator::let_go(const std::string& service, Group& group) {
  if (!group.standing) return;
  const Status gone_on = group.brake.release();
  if (!gone_on) spdlog::error("regulator: service '{}' stays frozen: {}", service, gone_on.error().message);
  group.standing = !gone_on.ok();
}

void Regulator::release() {
  for (auto& [service, group] : groups_) let_go(service, *group);
}

}  // namespace osml
