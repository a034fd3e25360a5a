// What series gained between exports. Times are in nanoseconds since 1970, of the senders' clocks and of ours.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "otlp/mixture.h"
#include "otlp/point.h"

namespace osml::latency::otlp {

// What of an export was rejected.
struct Taken {
  std::uint64_t rejected = 0;
  std::string reason;  // of the first that was rejected
};

class Series {
 public:
  static constexpr std::size_t most_streams = 10'000;
  // Buckets that all of them keep together: 16 bytes each.
  static constexpr std::size_t most_buckets = 1'000'000;
  // Windows of delta points that a stream remembers, to know an export that comes again.
  static constexpr std::size_t most_windows = 8;
  // Processes that push delta points with the same attributes.
  static constexpr std::ptrdiff_t most_alike = 128;
  // A point may describe so many intervals: one export may be lost, and the next one brings what it had.
  static constexpr double longest_window = 3.0;
  static constexpr double forget_after_s = 300.0;

  explicit Series(double interval_s) : interval_s_(interval_s) {}

  // A cumulative point counts with what it gained since the one before it, a delta point as it is. The first point of a
  // series counts where it began not longer ago than a window may be; otherwise it is the base of the next one. So it
  // is where it began at the time of the point: nobody knows when then.
  // - What was counted already (a repeated export, a late cumulative point) is not counted again.
  // - A lower count, a bound that has gone and NO_RECORDED_VALUE make the next point a base. A new start time is a new
  // series.
  // - Rejected: a window that is too long, a point that is older than that or lies in the future, one series too many.
  Taken add(const Export& brought, std::uint64_t now_ns);
  // Latency of what was counted since the last call, `length_s` ago. The rate of each series is over the time that its
  // points describe, and at least over that since the last call: a series that has just begun was quiet before.
  std::optional<Latency> take(std::uint64_t now_ns, double length_s);

  [[nodiscard]] std::size_t size() const { return streams_.size(); }

 private:
  struct Window {
    std::uint64_t start_ns = 0;
    std::uint64_t time_ns = 0;
    bool operator==(const Window&) const = default;
  };
  struct Stream {
    std::uint64_t time_ns = 0;  // of the newest point
    std::uint64_t heard_ns = 0;
    std::optional<std::variant<Histogram, Exponential>> base;  // of a cumulative one
    std::array<Window, most_windows> windows;                  // of a delta one
    std::size_t next_window = 0;
    double requests = 0;  // in this interval
    double covered_s = 0;
  };
  // A cumulative stream is found by when it began, a delta stream by when its last point ended: where the next begins.
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  using Place = std::map<Key, Stream>::iterator;

  // Nothing: the point was used. Otherwise why it was not.
  std::optional<std::string> add_cumulative(const Point& point, std::uint64_t now_ns);
  std::optional<std::string> add_delta(const Point& point, std::uint64_t now_ns);
  std::optional<std::string> out_of_time(const Point& point, std::uint64_t now_ns) const;
  std::optional<std::string> too_long(double window_s) const;
  std::optional<std::string> count(Stream& stream, const std::variant<Histogram, Exponential>& gained, double window_s);
  [[nodiscard]] bool was_counted(const Point& point) const;
  // None where there is no room.
  std::optional<Place> begin(Key key, std::uint64_t now_ns);
  // Where the series of a cumulative point is, without one whose times a clock set back has made wrong.
  Place find_cumulative(const Point& point, std::uint64_t now_ns);
  [[nodiscard]] std::pair<std::map<Key, Stream>::const_iterator, std::map<Key, Stream>::const_iterator> alike(
      std::uint64_t identity) const;
  // The base of a stream that has none now. False where there is no room.
  bool keep(Stream& stream, const Point& point, std::uint64_t now_ns);
  void forget(std::uint64_t now_ns, double after_s);
  // Delta streams of this identity that ended: a pause of requests ends one.
  void forget_ended(std::uint64_t identity, std::uint64_t now_ns);
  [[nodiscard]] double longest_s() const { return longest_window * interval_s_; }

  double interval_s_;
  std::map<Key, Stream> streams_;
  std::size_t buckets_ = 0;
  bool forgot_ = false;  // in this export
  Mixture mixture_;
};

}  // namespace osml::latency::otlp
