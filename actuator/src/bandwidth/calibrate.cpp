#include "bandwidth/calibrate.h"

#include <algorithm>
#include <array>

#include "base/units.h"

namespace osml {

namespace {

Result<double> gbps_over(double seconds, const CalibrationBench& bench) {
  const double start_s = bench.now_s();
  const auto before = bench.total_bytes();
  if (!before) return before.error();
  bench.wait(seconds);
  const double length_s = bench.now_s() - start_s;
  const auto after = bench.total_bytes();
  if (!after) return after.error();
  if (*after <= *before || !(length_s > 0)) {
    return Error{
        ErrorKind::Io,
        "the job caused no memory traffic; run a job that uses memory all the time, such as `stress-ng --stream`", 0};
  }
  return static_cast<double>(*after - *before) / bytes_per_gb / length_s;
}

// A busy machine delays now and then a look at the counters: the middle one of three.
Result<double> gbps_now(const CalibrationTimes& times, const CalibrationBench& bench) {
  bench.wait(times.settle_s);
  std::array<double, 3> parts{};
  for (double& part : parts) {
    const auto found = gbps_over(times.measure_s / static_cast<double>(parts.size()), bench);
    if (!found) return found.error();
    part = *found;
  }
  std::sort(parts.begin(), parts.end());
  return parts[1];
}

}  // namespace

std::vector<unsigned> settings_of(const MbaRange& range, std::size_t most) {
  const unsigned step = std::max(1U, range.step);
  const std::size_t count = (range.max - range.min) / step + 1;
  std::vector<unsigned> settings;
  const std::size_t taken = std::min(count, std::max<std::size_t>(most, 2));
  for (std::size_t i = 0; i < taken; ++i) {
    const std::size_t at = taken == 1 ? 0 : i * (count - 1) / (taken - 1);
    settings.push_back(range.min + static_cast<unsigned>(at) * step);
  }
  return settings;
}

Result<MbaCurve> calibrate(const MbaRange& range, const std::vector<unsigned>& settings, const CalibrationTimes& times,
                           const CalibrationBench& bench) {
  std::vector<CurvePoint> points;
  for (auto setting = settings.rbegin(); setting != settings.rend(); ++setting) {
    if (Status set = bench.throttle(*setting); !set) return set.error();
    const auto gbps = gbps_now(times, bench);
    if (!gbps) return gbps.error().wrap("setting " + std::to_string(*setting) + " " + range.unit);
    points.push_back({*setting, *gbps});
    bench.measured(points.back());
  }
  std::reverse(points.begin(), points.end());
  return MbaCurve::make(range.unit, std::move(points));
}

}  // namespace osml
