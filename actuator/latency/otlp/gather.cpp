#include "otlp/gather.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/printable.h"
#include "base/result.h"

namespace osml::latency::otlp {

namespace {

constexpr std::size_t longest_name = 100;

// With its length before it, so that no two lists of parts give the same text.
void append(std::string& identity, std::string_view part) {
  identity.append(std::to_string(part.size())).append(":").append(part);
}

std::string text_of(Attributes attributes) {
  std::sort(attributes.begin(), attributes.end(),
            [](const Attribute& one, const Attribute& other) { return one.key < other.key; });
  std::string text;
  for (const Attribute& attribute : attributes) {
    append(text, attribute.key);
    text += attribute.type;
    append(text, attribute.text);
  }
  return text;
}

std::string hash_of(const std::string& text) { return std::to_string(std::hash<std::string>{}(text)); }

Error wrong(const std::string& what) { return {ErrorKind::Input, "a point of the histogram " + what, 0}; }

std::string number(std::uint64_t value) { return std::to_string(value); }

// Far more than any latency, and so little that no arithmetic leaves the numbers there are. False for NaN.
bool is_measured(double value) {
  constexpr double most = 1e18;
  return value >= 0 && value <= most;
}

// Sums where counts have no limit yet.
bool adds_up(const RawPoint& raw) {
  std::uint64_t left = raw.count;
  const auto take = [&left](std::uint64_t count) {
    if (count > left) return false;
    left -= count;
    return true;
  };
  return take(raw.zero_count) && std::all_of(raw.negative_counts.begin(), raw.negative_counts.end(), take) &&
         std::all_of(raw.bucket_counts.begin(), raw.bucket_counts.end(), take) && left == 0;
}

Status check(const RawPoint& raw) {
  if (raw.time_ns == 0 || raw.start_ns > raw.time_ns) {
    return wrong("has the times " + number(raw.start_ns) + " and " + number(raw.time_ns) +
                 ", expected a start and a later time; check the clock of the service");
  }
  if ((raw.flags & no_recorded_value) != 0) return done();
  if (raw.bucket_counts.size() > Gather::most_buckets || raw.count > Gather::most_count) {
    return wrong("has " + number(raw.bucket_counts.size()) + " buckets and the count " + number(raw.count) +
                 ", expected at most " + number(Gather::most_buckets) + " and " + number(Gather::most_count));
  }
  if (!adds_up(raw)) return wrong("has buckets that do not add up to its count " + number(raw.count));
  return done();
}

std::optional<double> sum_of(const RawPoint& raw) {
  constexpr double most = 1e30;
  return raw.sum && *raw.sum >= 0 && *raw.sum <= most ? raw.sum : std::nullopt;
}

Result<Histogram> explicit_of(const RawPoint& raw, double unit_ms) {
  const std::vector<double>& bounds = raw.explicit_bounds;
  if (bounds.empty() || raw.bucket_counts.size() != bounds.size() + 1) {
    return wrong("has " + number(bounds.size()) + " bounds and " + number(raw.bucket_counts.size()) +
                 " buckets, expected bounds, and one bucket more");
  }
  const bool ascending = std::adjacent_find(bounds.begin(), bounds.end(), [](double lower, double upper) {
                           return !(lower < upper);
                         }) == bounds.end();
  if (!ascending || !std::all_of(bounds.begin(), bounds.end(), is_measured)) {
    return wrong("has bounds that do not ascend from 0 to 1e18");
  }
  Histogram made;
  double below = 0;
  for (std::size_t i = 0; i < raw.bucket_counts.size(); ++i) {
    below += static_cast<double>(raw.bucket_counts[i]);
    const double upper = i < bounds.size() ? bounds[i] * unit_ms : std::numeric_limits<double>::infinity();
    made.buckets.push_back({upper, below});
  }
  if (const auto sum = sum_of(raw)) made.sum = *sum * unit_ms;
  made.count = static_cast<double>(raw.count);
  return made;
}

Result<Exponential> exponential_of(const RawPoint& raw, double unit_ms) {
  // The protocol's limits of a scale, and of what a double can be.
  constexpr int least_scale = -10;
  constexpr int most_scale = 20;
  constexpr double least_exponent = -1100;
  constexpr double most_exponent = 1000;
  if (raw.scale < least_scale || raw.scale > most_scale || !is_measured(raw.zero_threshold)) {
    return wrong("has the scale " + std::to_string(raw.scale) + ", expected -10 to 20 and a zero_threshold from 0 on");
  }
  const double first = std::ldexp(static_cast<double>(raw.offset), -raw.scale);
  const double last =
      std::ldexp(static_cast<double>(raw.offset) + static_cast<double>(raw.bucket_counts.size()), -raw.scale);
  if (first < least_exponent || last > most_exponent) {
    return wrong("has the offset " + std::to_string(raw.offset) + " at the scale " + std::to_string(raw.scale) +
                 ", expected buckets of numbers that there are");
  }
  Exponential made;
  made.scale = raw.scale;
  made.offset = raw.offset;
  made.counts.assign(raw.bucket_counts.begin(), raw.bucket_counts.end());
  // A clock that was set back makes latencies below 0: they took no time.
  made.zero_count =
      static_cast<double>(std::accumulate(raw.negative_counts.begin(), raw.negative_counts.end(), raw.zero_count));
  made.zero_threshold = raw.zero_threshold;
  made.unit_ms = unit_ms;
  made.sum = sum_of(raw);
  made.count = static_cast<double>(raw.count);
  return made;
}

Status fill(Point& point, const RawPoint& raw, double unit_ms) {
  if (raw.exponential) {
    auto made = exponential_of(raw, unit_ms);
    if (!made) return made.error();
    point.value = std::move(*made);
    return done();
  }
  auto made = explicit_of(raw, unit_ms);
  if (!made) return made.error();
  point.value = std::move(*made);
  return done();
}

// Empty where they are not.
std::string too_many(const Attributes& attributes, const char* of) {
  if (attributes.size() <= Gather::most_attributes) return {};
  return std::string("a ") + of + " has " + number(attributes.size()) + " attributes, expected at most " +
         number(Gather::most_attributes);
}

bool has(const Attributes& attributes, const std::pair<std::string, std::string>& wanted) {
  return std::any_of(attributes.begin(), attributes.end(),
                     [&wanted](const Attribute& one) { return one.key == wanted.first && one.text == wanted.second; });
}

}  // namespace

std::optional<double> unit_in_ms(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 8> units{{{"s", 1000.0},
                                                                      {"ms", 1.0},
                                                                      {"us", 1e-3},
                                                                      {"ns", 1e-6},
                                                                      {"seconds", 1000.0},
                                                                      {"milliseconds", 1.0},
                                                                      {"microseconds", 1e-3},
                                                                      {"nanoseconds", 1e-6}}};
  for (const auto& [name, in_ms] : units) {
    if (unit == name) return in_ms;
  }
  return std::nullopt;
}

void Gather::resource(Attributes attributes) {
  wrong_resource_ = too_many(attributes, "resource");
  wrong_scope_.clear();
  scope_.clear();
  left_to_point_.clear();
  for (const auto& wanted : selection_.attributes) {
    if (!has(attributes, wanted)) left_to_point_.push_back(wanted);
  }
  resource_ = hash_of(text_of(std::move(attributes)));
}

void Gather::scope(const std::string& name, const std::string& version, Attributes attributes) {
  wrong_scope_ = too_many(attributes, "scope");
  std::string text;
  append(text, name);
  append(text, version);
  append(text, text_of(std::move(attributes)));
  scope_ = hash_of(text);
}

bool Gather::metric(const std::string& name, const std::string& unit, bool histogram) {
  if (name != selection_.name) {
    if (histogram && export_.others.size() < most_others) export_.others.insert(printable(name, longest_name));
    return false;
  }
  unit_ms_ = unit.empty() ? selection_.unit_ms : unit_in_ms(unit);
  metric_ = printable(unit, longest_name);
  return true;
}

bool Gather::selected(const Attributes& of_point) const {
  return std::all_of(left_to_point_.begin(), left_to_point_.end(),
                     [&](const auto& wanted) { return has(of_point, wanted); });
}

// All of them cost time, also those that cannot be used.
Status Gather::usable(const RawPoint& raw, Temporality temporality) {
  if (++points_ > most_points) {
    return Error{ErrorKind::Input,
                 "an export has more than " + number(most_points) + " points of the histogram; select by --attribute",
                 0};
  }
  const std::string& why = wrong_resource_.empty() ? wrong_scope_ : wrong_resource_;
  if (!why.empty()) return Error{ErrorKind::Input, why, 0};
  if (raw.attributes.size() > most_attributes) {
    return wrong("has " + number(raw.attributes.size()) + " attributes, expected at most " + number(most_attributes));
  }
  if (!unit_ms_) {
    return Error{ErrorKind::Input,
                 "the unit of the histogram is '" + metric_ + "', expected s, ms, us or ns; check --name", 0};
  }
  if (temporality != Temporality::Delta && temporality != Temporality::Cumulative) {
    return Error{ErrorKind::Input, "the histogram has no aggregation temporality, expected 1 (delta) or 2 (cumulative)",
                 0};
  }
  return check(raw);
}

void Gather::point(RawPoint&& raw, Temporality temporality) {
  if (raw.attributes.size() <= most_attributes && !selected(raw.attributes)) return;
  if (Status checked = usable(raw, temporality); !checked) return reject(checked.error().message);
  Point point;
  point.cumulative = temporality == Temporality::Cumulative;
  point.has_value = (raw.flags & no_recorded_value) == 0;
  point.start_ns = raw.start_ns;
  point.time_ns = raw.time_ns;
  if (point.has_value) {
    if (Status filled = fill(point, raw, *unit_ms_); !filled) return reject(filled.error().message);
  }
  if (point.has_value && point.cumulative && point.start_ns == 0) {
    return reject(
        wrong("has no start time, expected when its series began; several processes could not be told apart").message);
  }
  std::string identity = point.cumulative ? "c" : "d";
  for (const std::string& part : {resource_, scope_, metric_, text_of(std::move(raw.attributes))}) {
    append(identity, part);
  }
  point.identity = std::hash<std::string>{}(identity);
  export_.points.push_back(std::move(point));
}

void Gather::reject(const std::string& reason, std::uint64_t points) {
  if (points == 0) return;
  if (export_.rejected == 0) export_.reason = reason;
  export_.rejected += points;
}

}  // namespace osml::latency::otlp
