#include "node/clocks.h"

#include <algorithm>

#include "base/number.h"

namespace osml {

namespace {

constexpr std::uint64_t khz_in_mhz = 1000;
constexpr double khz_in_ghz = 1e6;
constexpr std::uint64_t usual_step_mhz = 100;  // PARTIES, table 3, and the step of most processors

// Ranges of the domains, until the end in kHz.
struct Common {
  std::uint64_t least = 0, most = 0, step = usual_step_mhz * khz_in_mhz;
  std::optional<std::uint64_t> nominal;
};

// So that each step is another frequency.
std::uint64_t widest_gap(const std::vector<std::uint64_t>& table) {
  std::uint64_t gap = 0;
  for (std::size_t i = 1; i < table.size(); ++i) gap = std::max(gap, table[i] - table[i - 1]);
  return gap;
}

Status add(Common& common, ClockKnob& knob, const ClockDomain& domain, const std::string* found) {
  if (Status usable = knob.probe(); !usable) return usable.error().wrap(domain.part);
  const auto now = knob.snapshot();
  const auto most = parse_unsigned(found != nullptr ? *found : now ? *now : "");
  const auto least = knob.least_khz();
  if (!now || !most || !least) return Error{ErrorKind::Io, domain.part + " has no limit that can be read", 0};
  common.least = std::max(common.least, *least);
  common.most = std::max<std::uint64_t>(common.most, *most);
  common.step = std::max(common.step, widest_gap(knob.table_khz()));
  const auto nominal = knob.nominal_khz(domain.cpus.front());
  if (nominal) common.nominal = std::max(common.nominal.value_or(0), *nominal);
  return done();
}

Clocks unusable(const std::string& why) { return {{}, {}, {}, {}, why}; }

}  // namespace

Clocks find_clocks(const Config& config, const CpuSet& usable, const Found& found) {
  const auto allowed = config.cpu.cpus ? parse_cpulist(*config.cpu.cpus) : Result<CpuSet>(CpuSet{});
  if (!allowed) return unusable(allowed.error().message);
  auto domains = find_clock_domains(config.roots, usable, config.cpu.cpus ? std::optional(*allowed) : std::nullopt);
  if (!domains) return unusable(domains.error().message);
  Clocks clocks;
  Common common;
  std::string driver;
  for (const ClockDomain& domain : *domains) {
    auto knob = std::make_unique<ClockKnob>(config.roots, domain.part);
    KnobSet set;
    set.service = domain.part;
    if (Status added = add(common, *knob, domain, found(set.name(*knob))); !added) {
      return unusable(added.error().message);
    }
    driver = knob->driver();
    set.knobs[Aspect::Clock] = std::move(knob);
    clocks.knobs.push_back(std::move(set));
  }
  const std::uint64_t least = (common.least + khz_in_mhz - 1) / khz_in_mhz;
  const std::uint64_t most = common.most / khz_in_mhz;
  if (least == 0 || least >= most) {
    return unusable("scaling_min_freq and scaling_max_freq leave no room: " + std::to_string(least) + " to " +
                    std::to_string(most) + " MHz");
  }
  clocks.domains = std::move(*domains);
  clocks.range = {least, most, common.step / khz_in_mhz};
  if (common.nominal) clocks.nominal_ghz = static_cast<double>(*common.nominal) / khz_in_ghz;
  clocks.how =
      driver + ", " + std::to_string(clocks.knobs.size()) + (clocks.knobs.size() == 1 ? " domain" : " domains");
  return clocks;
}

}  // namespace osml
