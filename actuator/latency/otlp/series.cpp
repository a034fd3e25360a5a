#include "otlp/series.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/number.h"

namespace osml::latency::otlp {

namespace {

using Value = std::variant<Histogram, Exponential>;

double seconds_between(std::uint64_t earlier_ns, std::uint64_t later_ns) {
  return later_ns >= earlier_ns ? static_cast<double>(later_ns - earlier_ns) * 1e-9
                                : -static_cast<double>(earlier_ns - later_ns) * 1e-9;
}

std::string in_seconds(double seconds) { return format_number(std::round(seconds * 10) / 10) + " s"; }

std::size_t buckets_of(const std::optional<Value>& value) {
  if (!value) return 0;
  if (const auto* plain = std::get_if<Histogram>(&*value)) return plain->buckets.size();
  return std::get<Exponential>(*value).counts.size();
}

std::optional<Value> gained_between(const Value& newer, const Value& older) {
  if (newer.index() != older.index()) return std::nullopt;
  if (const auto* plain = std::get_if<Histogram>(&newer)) {
    const auto gained = osml::difference(*plain, std::get<Histogram>(older));
    return gained ? std::optional<Value>(*gained) : std::nullopt;
  }
  const auto gained = osml::difference(std::get<Exponential>(newer), std::get<Exponential>(older));
  return gained ? std::optional<Value>(*gained) : std::nullopt;
}

double count_of(const Value& value) {
  if (const auto* plain = std::get_if<Histogram>(&value)) return plain->buckets.back().count;
  return std::get<Exponential>(value).count;
}

const char* const no_room = "there are too many series; select by --attribute of osml-latency";

}  // namespace

Taken Series::add(const Export& brought, std::uint64_t now_ns) {
  Taken taken{brought.rejected, brought.reason};
  forgot_ = false;
  for (const Point& point : brought.points) {
    const auto refused = point.cumulative ? add_cumulative(point, now_ns) : add_delta(point, now_ns);
    if (!refused) continue;
    if (taken.rejected++ == 0) taken.reason = *refused;
  }
  return taken;
}

std::optional<std::string> Series::out_of_time(const Point& point, std::uint64_t now_ns) const {
  const double age_s = seconds_between(point.time_ns, now_ns);
  if (std::abs(age_s) <= longest_s()) return std::nullopt;
  const char* const where = age_s > 0 ? " old" : " in the future";
  return "a point is " + in_seconds(std::abs(age_s)) + where + ", expected at most " + in_seconds(longest_s()) +
         "; check the clocks, and that exports are not held up";
}

std::optional<std::string> Series::too_long(double window_s) const {
  if (window_s <= longest_s()) return std::nullopt;
  return "a point describes " + in_seconds(window_s) + ", expected at most " + in_seconds(longest_s()) +
         "; set OTEL_METRIC_EXPORT_INTERVAL=" + format_number(std::round(interval_s_ * 1000)) + " for the service";
}

std::optional<Series::Place> Series::begin(Key key, std::uint64_t now_ns) {
  // Who was not heard for a window has no base that is of use.
  if (streams_.size() >= most_streams && !std::exchange(forgot_, true)) forget(now_ns, longest_s());
  if (streams_.size() >= most_streams) return std::nullopt;
  return streams_.emplace(key, Stream{}).first;
}

bool Series::keep(Stream& stream, const Point& point, std::uint64_t now_ns) {
  const std::size_t more = buckets_of(point.value);
  // This stream stays: it was heard now.
  if (buckets_ + more > most_buckets && !std::exchange(forgot_, true)) forget(now_ns, longest_s());
  if (buckets_ + more > most_buckets) return false;
  buckets_ += more;
  stream.base = point.value;
  return true;
}

Series::Place Series::find_cumulative(const Point& point, std::uint64_t now_ns) {
  const auto found = streams_.find({point.identity, point.start_ns});
  if (found == streams_.end() || seconds_between(now_ns, found->second.time_ns) <= longest_s()) return found;
  buckets_ -= buckets_of(found->second.base);
  streams_.erase(found);
  return streams_.end();
}

std::optional<std::string> Series::add_cumulative(const Point& point, std::uint64_t now_ns) {
  if (seconds_between(now_ns, point.time_ns) > longest_s()) return out_of_time(point, now_ns);
  auto found = find_cumulative(point, now_ns);
  const bool first = found == streams_.end();
  if (!first && point.time_ns <= found->second.time_ns) return std::nullopt;
  if (first) {
    if (!point.has_value) return std::nullopt;
    const auto made = begin({point.identity, point.start_ns}, now_ns);
    if (!made) return no_room;
    found = *made;
  }
  Stream& stream = found->second;
  const std::uint64_t before_ns = first ? point.start_ns : stream.time_ns;
  stream.time_ns = point.time_ns;
  stream.heard_ns = now_ns;
  const std::optional<Value> base = std::move(stream.base);
  buckets_ -= buckets_of(base);
  stream.base.reset();
  if (!point.has_value) return std::nullopt;
  if (!keep(stream, point, now_ns)) return no_room;
  const double window_s = seconds_between(before_ns, point.time_ns);
  // Who does not know when a series began says that it began now.
  if (first && (window_s <= 0 || too_long(window_s))) return std::nullopt;
  if (!first && !base) return std::nullopt;
  const auto gained = first ? std::optional(point.value) : gained_between(point.value, *base);
  if (!gained) return std::nullopt;
  if (auto refused = out_of_time(point, now_ns)) return refused;
  return count(stream, *gained, window_s);
}

std::pair<std::map<Series::Key, Series::Stream>::const_iterator, std::map<Series::Key, Series::Stream>::const_iterator>
Series::alike(std::uint64_t identity) const {
  return {streams_.lower_bound({identity, 0}), streams_.upper_bound({identity, UINT64_MAX})};
}

bool Series::was_counted(const Point& point) const {
  const Window window{point.start_ns, point.time_ns};
  const auto [begin, end] = alike(point.identity);
  return std::any_of(begin, end, [&window](const auto& one) {
    const auto& windows = one.second.windows;
    return std::find(windows.begin(), windows.end(), window) != windows.end();
  });
}

std::optional<std::string> Series::add_delta(const Point& point, std::uint64_t now_ns) {
  if (!point.has_value) return std::nullopt;
  if (point.start_ns == 0 || point.start_ns == point.time_ns) {
    return "a point with delta temporality has no start time, expected when it began";
  }
  if (auto refused = out_of_time(point, now_ns)) return refused;
  if (was_counted(point)) return std::nullopt;
  auto found = streams_.find({point.identity, point.start_ns});
  const bool first = found == streams_.end();
  if (first) {
    forget_ended(point.identity, now_ns);
    const auto [first_alike, end_alike] = alike(point.identity);
    const bool room = std::distance(first_alike, end_alike) < most_alike;
    const auto made = room ? begin({point.identity, point.start_ns}, now_ns) : std::nullopt;
    if (!made) return no_room;
    found = *made;
  }
  // Its next point begins where this one ends. Two that end at the same time are one.
  auto node = streams_.extract(found);
  node.key().second = point.time_ns;
  const auto placed = streams_.insert(std::move(node));
  Stream& stream = placed.position->second;
  if (!placed.inserted) {
    stream.requests += placed.node.mapped().requests;
    stream.covered_s += placed.node.mapped().covered_s;
  }
  stream.time_ns = point.time_ns;
  stream.heard_ns = now_ns;
  stream.windows[stream.next_window++ % most_windows] = {point.start_ns, point.time_ns};
  const double window_s = seconds_between(point.start_ns, point.time_ns);
  if (auto refused = too_long(window_s)) return first ? std::nullopt : refused;
  return count(stream, point.value, window_s);
}

std::optional<std::string> Series::count(Stream& stream, const Value& gained, double window_s) {
  if (auto refused = too_long(window_s)) return refused;
  const double requests = count_of(gained);
  const bool fits = requests == 0 || std::visit([this](const auto& value) { return mixture_.add(value); }, gained);
  if (!fits) return "there are too many different sets of bounds; give the histogram the same ones everywhere";
  stream.requests += requests;
  stream.covered_s += window_s;
  return std::nullopt;
}

void Series::forget(std::uint64_t now_ns, double after_s) {
  for (auto place = streams_.begin(); place != streams_.end();) {
    if (std::abs(seconds_between(place->second.heard_ns, now_ns)) > after_s) {
      buckets_ -= buckets_of(place->second.base);
      place = streams_.erase(place);
    } else {
      ++place;
    }
  }
}

void Series::forget_ended(std::uint64_t identity, std::uint64_t now_ns) {
  const auto end = streams_.upper_bound({identity, UINT64_MAX});
  for (auto place = streams_.lower_bound({identity, 0}); place != end;) {
    const Stream& stream = place->second;
    const bool ended = stream.requests == 0 && seconds_between(stream.heard_ns, now_ns) > longest_s();
    if (ended) buckets_ -= buckets_of(stream.base);
    place = ended ? streams_.erase(place) : std::next(place);
  }
}

std::optional<Latency> Series::take(std::uint64_t now_ns, double length_s) {
  double rate = 0;
  for (auto& [key, stream] : streams_) {
    if (stream.covered_s > 0) rate += stream.requests / std::max(stream.covered_s, length_s);
    stream.requests = stream.covered_s = 0;
  }
  forget(now_ns, std::max(forget_after_s, longest_s()));
  auto latency = mixture_.take();
  if (latency) latency->requests_per_s = rate;
  return latency;
}

}  // namespace osml::latency::otlp
