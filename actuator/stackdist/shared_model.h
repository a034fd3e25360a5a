// The last-level cache that all threads and processes of a program share: it lies in a file that all of them map.
//
// Each group of sets has its own lock, sets and counts. A process may be killed at any time, so a lock that is held too
// long is taken over: one access may then be counted wrongly, but nobody waits for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/result.h"
#include "counts.h"
#include "geometry.h"
#include "lru_stack.h"
#include "stream_prefetcher.h"

namespace osml::stackdist {

inline constexpr std::uint64_t kMagic = 0x6f736d6c73643031;  // "osmlsd01"
inline constexpr std::uint64_t kSeenBits = std::uint64_t{1} << 27U;

struct alignas(64) GroupLock {
  std::atomic<std::uint32_t> held{0};
};

struct Shared {
  std::uint64_t magic = 0;
  Geometry geometry;
  std::atomic<std::uint32_t> measuring{0};
  std::atomic<std::uint32_t> current_slice{0};
  std::atomic<std::uint64_t> slice_length{kFirstSlice};
  std::atomic<std::uint64_t> instructions{0};  // of the whole run, measured or not
  std::atomic<std::uint64_t> measured_instructions{0};
  std::atomic<std::uint64_t> processes{0};
  std::atomic<std::uint64_t> threads{0};
  std::atomic<std::uint64_t> unseen_programs{0};  // started with exec: they run without instrumentation
  GroupLock slice_lock;
  GroupLock locks[kGroups];
  Slice slices[kSlices];
};

class SharedModel {
 public:
  // A new file; one that is there is replaced. Refuses a geometry that makes no sense.
  static Result<SharedModel> create(const std::string& path, const Geometry& geometry);
  // A file that `create` made.
  static Result<SharedModel> open(const std::string& path);
  SharedModel(SharedModel&& other) noexcept : map_(std::exchange(other.map_, nullptr)), bytes_(other.bytes_) {}
  SharedModel(const SharedModel&) = delete;
  SharedModel& operator=(const SharedModel&) = delete;
  SharedModel& operator=(SharedModel&&) = delete;
  ~SharedModel();

  [[nodiscard]] Shared& shared() const { return *map_; }
  [[nodiscard]] const Geometry& geometry() const { return map_->geometry; }

  // L2 missed `line`. `streams` belongs to the core.
  void fetch(std::uint64_t line, StreamPrefetcher& streams);
  // L2 throws a written line out.
  void write_back(std::uint64_t line);
  // So many instructions ran. Moves on to the next slice where one is full.
  void ran(std::uint64_t instructions);
  // What is counted is thrown away, the caches stay as they are, and counting starts.
  void start();
  void stop() { map_->measuring.store(0); }
  // Distinct lines of the whole run in the sampled sets, by linear counting (Whang, Vander-Zanden and Taylor 1990).
  [[nodiscard]] double distinct_lines() const;

 private:
  SharedModel(Shared* map, std::size_t bytes) : map_(map), bytes_(bytes) {}

  // The place of a line among the sampled sets; false where its set is not sampled.
  [[nodiscard]] bool place_of(std::uint64_t line, std::uint64_t& set) const;
  [[nodiscard]] Line* stack_of(std::uint32_t variant, std::uint64_t set) const;
  [[nodiscard]] std::atomic<std::uint64_t>* seen_words() const;
  // True the first time.
  bool first_seen(std::uint64_t line);
  void merge_slices();

  Shared* map_;
  std::size_t bytes_;
};

}  // namespace osml::stackdist
