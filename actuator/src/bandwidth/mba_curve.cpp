#include "bandwidth/mba_curve.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/units.h"

namespace osml {

namespace {

constexpr const char* schema = "osml/mba-curve/v1";
constexpr std::size_t most_points = 4096;
constexpr double most_gbps = 1e5;

unsigned to_mbps(double gbps) { return static_cast<unsigned>(std::llround(gbps * mb_per_gb)); }

Error wrong(const std::string& what) {
  return {ErrorKind::Input, what + "; measure the curve again with osml-agent calibrate-mba", 0};
}

}  // namespace

Result<MbaCurve> MbaCurve::make(std::string unit, std::vector<CurvePoint> points) {
  if (unit != "percent" && unit != "mbps" && unit != "eighth_gbps") {
    return wrong("unit '" + unit + "', expected percent, mbps or eighth_gbps");
  }
  if (points.size() < 2 || points.size() > most_points) {
    return wrong(std::to_string(points.size()) + " points, expected at least 2");
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    CurvePoint& point = points[i];
    const std::string where = "points[" + std::to_string(i) + "]";
    if (!(point.gbps > 0 && point.gbps <= most_gbps)) {
      return wrong(where + ".gbps is " + format_number(point.gbps) + ", expected GB/s above 0");
    }
    if (point.setting > most_mba || (i > 0 && point.setting <= points[i - 1].setting)) {
      return wrong(where + ".setting is " + std::to_string(point.setting) + ", expected settings in ascending order");
    }
    if (i > 0) point.gbps = std::max(point.gbps, points[i - 1].gbps);
  }
  return MbaCurve(std::move(unit), std::move(points));
}

unsigned MbaCurve::setting_for(double gbps) const {
  // Half a MB/s is what rounding to MB/s may have cost.
  constexpr double rounding_gbps = 0.5 / mb_per_gb;
  for (const CurvePoint& point : points_) {
    if (point.gbps + rounding_gbps >= gbps) return point.setting;
  }
  return points_.back().setting;
}

double MbaCurve::gbps_of(unsigned setting) const {
  const auto above = std::find_if(points_.begin(), points_.end(),
                                  [setting](const CurvePoint& point) { return point.setting >= setting; });
  if (above == points_.end()) return points_.back().gbps;
  if (above == points_.begin() || above->setting == setting) return above->gbps;
  const CurvePoint& below = *(above - 1);
  const double share =
      static_cast<double>(setting - below.setting) / static_cast<double>(above->setting - below.setting);
  return below.gbps + (above->gbps - below.gbps) * share;
}

MbaRange MbaCurve::range() const {
  return {std::max(1U, to_mbps(points_.front().gbps)), std::max(1U, to_mbps(points_.back().gbps)), 0, "mbps"};
}

std::string format_curve(const MbaCurve& curve, const std::string& node, const std::string& service) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const CurvePoint& point : curve.points()) points.push_back({{"setting", point.setting}, {"gbps", point.gbps}});
  const nlohmann::ordered_json document = {
      {"schema", schema}, {"node", node}, {"service", service}, {"unit", curve.unit()}, {"points", points}};
  return document.dump(1) + "\n";
}

Result<MbaCurve> parse_curve(const std::string& text, const std::string& file) {
  const auto document = nlohmann::json::parse(text, nullptr, false);
  const auto refuse = [&file](const std::string& what) { return wrong(file + ": " + what); };
  if (!document.is_object() || document.value("schema", nlohmann::json()) != schema) {
    return refuse(std::string("not a bandwidth curve, expected \"schema\": \"") + schema + "\"");
  }
  const auto unit = document.find("unit");
  const auto list = document.find("points");
  if (unit == document.end() || !unit->is_string() || list == document.end() || !list->is_array()) {
    return refuse("expected \"unit\" (text) and \"points\" (a list)");
  }
  std::vector<CurvePoint> points;
  for (const auto& item : *list) {
    const bool whole = item.is_object() && item.contains("setting") && item.contains("gbps") &&
                       item["setting"].is_number_unsigned() && item["gbps"].is_number();
    if (!whole || item["setting"].get<std::uint64_t>() > most_mba) {
      return refuse("points[" + std::to_string(points.size()) +
                    "], expected {\"setting\": whole number, \"gbps\": number}");
    }
    points.push_back({item["setting"].get<unsigned>(), item["gbps"].get<double>()});
  }
  auto curve = MbaCurve::make(unit->get<std::string>(), std::move(points));
  if (!curve) return curve.error().wrap(file);
  return curve;
}

}  // namespace osml
