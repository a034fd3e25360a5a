// A simple stream prefetcher: after two misses of L2 to neighbouring lines of a page it fetches ahead within the page.
#pragma once

#include <array>
#include <cstdint>

namespace osml::stackdist {

class StreamPrefetcher {
 public:
  static constexpr std::uint64_t kPageLines = 64;  // 4 KiB
  static constexpr std::int64_t kAhead = 8;        // lines ahead of the program
  static constexpr std::size_t kStreams = 16;

  // A miss of L2. Calls fetch(line) for every line that is fetched ahead now, each line of a run once.
  template <class Fetch>
  void miss(std::uint64_t line, Fetch&& fetch) {
    const std::uint64_t page = line / kPageLines;
    ++now_;
    Stream* oldest = &streams_[0];
    for (Stream& stream : streams_) {
      if (stream.used != 0 && stream.page == page) {
        follow(stream, line, fetch);
        return;
      }
      if (stream.used < oldest->used) oldest = &stream;
    }
    *oldest = Stream{page, static_cast<std::int64_t>(line), 0, 0, now_};
  }

 private:
  struct Stream {
    std::uint64_t page = 0;
    std::int64_t last = 0;     // the line that was missed last
    std::int64_t step = 0;     // +1, -1, or 0 before a second miss
    std::int64_t fetched = 0;  // the line that was fetched last, where `step` is not 0
    std::uint64_t used = 0;
  };

  template <class Fetch>
  void follow(Stream& stream, std::uint64_t line, Fetch& fetch) {
    const auto at = static_cast<std::int64_t>(line);
    stream.used = now_;
    const std::int64_t moved = at - stream.last;
    if (moved == 0) return;
    const std::int64_t step = moved > 0 ? 1 : -1;
    if (moved * step > 2) {  // too far apart for a stream
      stream.last = at;
      stream.step = 0;
      return;
    }
    if (step != stream.step) stream.fetched = at;
    stream.step = step;
    stream.last = at;
    if ((stream.fetched - at) * step < 0) stream.fetched = at;
    const auto first = static_cast<std::int64_t>(stream.page * kPageLines);
    const auto end = first + static_cast<std::int64_t>(kPageLines);
    for (std::int64_t next = stream.fetched + step; (next - at) * step <= kAhead; next += step) {
      if (next < first || next >= end) return;
      stream.fetched = next;
      fetch(static_cast<std::uint64_t>(next));
    }
  }

  std::array<Stream, kStreams> streams_{};
  std::uint64_t now_ = 0;
};

}  // namespace osml::stackdist
