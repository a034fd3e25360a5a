// Measures what each setting of the memory-bandwidth throttle gives an antagonist that takes all it can get.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bandwidth/mba_curve.h"
#include "base/result.h"

namespace osml {

// What calibration needs of the machine; the agent's actuator and resctrl in cli/calibrate.cpp, a fake in the tests.
struct CalibrationBench {
  std::function<Status(unsigned setting)> throttle;
  std::function<Result<std::uint64_t>()> total_bytes;  // moved by the antagonist since its group was made
  std::function<void(double seconds)> wait;            // node time
  std::function<double()> now_s;                       // node time
  std::function<void(const CurvePoint&)> measured;     // progress
};

struct CalibrationTimes {
  double settle_s = 1;   // after a new setting, before it is looked at
  double measure_s = 3;  // of each setting, in three parts of which the middle one counts
};

// The legal settings of a range, ascending, at most `most` of them (evenly spread, both ends included).
std::vector<unsigned> settings_of(const MbaRange& range, std::size_t most);

// From the largest setting to the smallest, so that the antagonist is warm when it counts. Io where the antagonist
// moves nothing; the first error of the bench otherwise. Restores nothing.
Result<MbaCurve> calibrate(const MbaRange& range, const std::vector<unsigned>& settings, const CalibrationTimes& times,
                           const CalibrationBench& bench);

}  // namespace osml
