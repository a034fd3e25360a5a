// What a memory-bandwidth throttle really gives: percentages are not bandwidths, and the relation differs from CPU to
// CPU. The curve is measured by `osml-agent calibrate-mba`; with it, decisions may ask for MB/s on a machine whose
// kernel knows percentages only.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "domain/types.h"

namespace osml {

struct CurvePoint {
  unsigned setting = 0;  // in the kernel's unit
  double gbps = 0;       // what the antagonist moved with it
};

class MbaCurve {
 public:
  // Settings must ascend, with at least two, and bandwidths be above 0. A bandwidth that falls from one setting to the
  // next is noise: the setting before counts as giving as much.
  static Result<MbaCurve> make(std::string unit, std::vector<CurvePoint> points);

  // The least measured setting that gives so much; the largest where none does.
  [[nodiscard]] unsigned setting_for(double gbps) const;
  // What a setting gives; straight between two settings, that of the nearest one outside.
  [[nodiscard]] double gbps_of(unsigned setting) const;
  // What may be asked for, in MB/s.
  [[nodiscard]] MbaRange range() const;
  [[nodiscard]] const std::string& unit() const { return unit_; }
  [[nodiscard]] const std::vector<CurvePoint>& points() const { return points_; }

 private:
  MbaCurve(std::string unit, std::vector<CurvePoint> points) : unit_(std::move(unit)), points_(std::move(points)) {}

  std::string unit_;  // percent | mbps | eighth_gbps: of the settings
  std::vector<CurvePoint> points_;
};

// The file: {"schema": "osml/mba-curve/v1", "unit": "percent", "points": [{"setting": 10, "gbps": 3.1}, ...]}.
std::string format_curve(const MbaCurve& curve, const std::string& node, const std::string& service);
// Input where it is no curve; the message names `file` and what is wrong.
Result<MbaCurve> parse_curve(const std::string& text, const std::string& file);

}  // namespace osml
