#include "kubernetes/verdict.h"

#include <algorithm>
#include <cmath>

namespace osml {

namespace {

constexpr double shortest_window_s = 60;
constexpr double least_intervals = 6;
constexpr double for_bad_news = 0.5;
constexpr double for_good_news = 0.9;
// Who misses less often than this share of the window is not what the news is about. Where each of many services misses
// seldom, but somebody does so at any time, it is about all that miss half as often as the worst of them. That holds
// for fresh news only: while old news stands, a single miss would take the place of who it is about.
constexpr double to_be_named = 0.1;
constexpr double of_the_worst = 0.5;

std::size_t index_of(Standing standing) { return static_cast<std::size_t>(standing); }

// Of a minute that is 60 times a second, half is 30 times, whatever the sum of binary fractions is.
constexpr double tolerance_s = 1e-6;

std::optional<Standing> news(const std::array<double, standings>& sums, double window_s) {
  const auto share = [&](Standing standing) { return (sums.at(index_of(standing)) + tolerance_s) / window_s; };
  if (share(Standing::Infeasible) >= for_bad_news) return Standing::Infeasible;
  if (share(Standing::Infeasible) + share(Standing::Missed) >= for_bad_news) return Standing::Missed;
  for (const Standing unclear : {Standing::NoDecision, Standing::NotManaged, Standing::Unmeasured}) {
    if (share(unclear) >= for_bad_news) return unclear;
  }
  if (share(Standing::Met) >= for_good_news) return Standing::Met;
  return std::nullopt;
}

}  // namespace

VerdictWindow::VerdictWindow(double interval_s)
    : interval_s_(interval_s), window_s_(std::max(shortest_window_s, least_intervals * interval_s)) {}

std::array<double, standings> VerdictWindow::sums(std::int64_t newest) const {
  std::array<double, standings> all{};
  for (const Slot& slot : ring_) {
    if (slot.number <= newest - static_cast<std::int64_t>(kept)) continue;
    for (std::size_t i = 0; i < standings; ++i) all.at(i) += slot.seconds.at(i);
  }
  return all;
}

std::set<std::string> VerdictWindow::services_of(Standing standing, bool fresh, std::int64_t newest) const {
  std::map<std::string, double> seconds;
  for (const Slot& slot : ring_) {
    if (slot.number <= newest - static_cast<std::int64_t>(kept)) continue;
    for (const auto& [service, lasted_s] : slot.services.at(index_of(standing))) seconds[service] += lasted_s;
  }
  double worst_s = 0;
  for (const auto& [service, lasted_s] : seconds) worst_s = std::max(worst_s, lasted_s);
  const double often_s = to_be_named * window_s_;
  const double least_s = fresh ? std::min(often_s, of_the_worst * worst_s) : often_s;
  std::set<std::string> named;
  for (const auto& [service, lasted_s] : seconds) {
    if (lasted_s >= least_s) named.insert(service);
  }
  return named;
}

void VerdictWindow::go_on(const VerdictWindow& before) {
  told_ = before.told_;
  words_ = before.words_;
}

void VerdictWindow::see(const ClusterFacts& facts, double now_s) {
  // An agent that was stopped for an hour has seen one interval, not an hour.
  const double most_s = window_s_ / least_intervals;
  const double lasted_s = std::clamp(last_s_ ? now_s - *last_s_ : interval_s_, 0.0, most_s);
  last_s_ = now_s;
  const auto newest = static_cast<std::int64_t>(std::floor(now_s / (window_s_ / static_cast<double>(slots))));
  Slot& slot = ring_.at(static_cast<std::size_t>(newest) % kept);
  if (slot.number != newest) slot = Slot{newest, {}, {}};
  slot.seconds.at(index_of(facts.standing)) += lasted_s;
  for (const std::string& service : facts.services) {
    slot.services.at(index_of(facts.standing))[service] += lasted_s;
  }
  if (facts.standing == Standing::Infeasible) {
    words_ = facts.words;
    // Whoever is infeasible misses its target as well, and Missed is told where both together are half of the window.
    const std::vector<std::string>& missed = facts.services.empty() ? facts.missed : facts.services;
    for (const std::string& service : missed) slot.services.at(index_of(Standing::Missed))[service] += lasted_s;
  }
  const std::optional<Standing> fresh = news(sums(newest), window_s_);
  const std::optional<Standing> standing = fresh ? fresh : told_ ? std::optional(told_->standing) : std::nullopt;
  if (!standing) return;
  std::set<std::string> services = services_of(*standing, fresh.has_value(), newest);
  if (services.empty() && told_ && told_->standing == *standing) services = std::move(told_->services);
  told_ = Verdict{*standing, std::move(services), *standing == Standing::Infeasible ? words_ : std::string()};
}

}  // namespace osml
