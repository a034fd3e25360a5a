// The caches of one core, L1 for code, L1 for data, and L2: what they miss is what the last level sees.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.h"

namespace osml::stackdist {

// Set-associative, LRU, indexed by the address. Tags are line numbers plus one; 0 is an empty place.
class LruCache {
 public:
  explicit LruCache(const PrivateCache& size)
      : ways_(size.ways),
        sets_(std::uint64_t{size.kib} * 1024 / kLineBytes / size.ways),
        entries_(sets_ * size.ways, 0) {}

  struct Outcome {
    bool hit = false;
    std::uint64_t evicted_dirty = 0;  // the line plus one; 0: none
  };

  // Use a line: it is there afterwards, in front.
  Outcome access(std::uint64_t line, bool store) {
    std::uint64_t* set = set_of(line);
    const std::uint64_t wanted = (line + 1) << 1U;
    std::uint32_t place = 0;
    while (place < ways_ && (set[place] | 1U) != (wanted | 1U)) ++place;
    Outcome outcome;
    std::uint64_t entry = wanted;
    if (place < ways_) {
      outcome.hit = true;
      entry = set[place];
    } else {
      place = ways_ - 1;
      if ((set[place] & 1U) != 0) outcome.evicted_dirty = set[place] >> 1U;
    }
    for (; place > 0; --place) set[place] = set[place - 1];
    set[0] = entry | (store ? 1U : 0U);
    return outcome;
  }

  // Mark a line as written, without a use. False where it is not there.
  bool mark_dirty(std::uint64_t line) {
    std::uint64_t* set = set_of(line);
    const std::uint64_t wanted = (line + 1) << 1U;
    for (std::uint32_t place = 0; place < ways_; ++place) {
      if ((set[place] | 1U) == (wanted | 1U)) {
        set[place] |= 1U;
        return true;
      }
    }
    return false;
  }

 private:
  std::uint64_t* set_of(std::uint64_t line) { return &entries_[(line % sets_) * ways_]; }

  std::uint32_t ways_;
  std::uint64_t sets_;
  std::vector<std::uint64_t> entries_;  // (line + 1) * 2 + dirty
};

class PrivateCaches {
 public:
  explicit PrivateCaches(const Geometry& geometry)
      : l1i_(geometry.l1i), l1d_(geometry.l1d), l2_(geometry.l2), geometry_(geometry) {}

  // `shared` has fetch(line) for what L2 misses and write_back(line) for dirty lines that leave L2.
  template <class Shared>
  void data(std::uint64_t line, bool store, Shared& shared) {
    if (line == last_ && (!store || last_stored_)) return;  // most accesses: the line that was used last
    last_ = line;
    last_stored_ = store;
    const auto first = l1d_.access(line, store);
    if (first.evicted_dirty != 0 && !l2_.mark_dirty(first.evicted_dirty - 1)) {
      shared.write_back(first.evicted_dirty - 1);
    }
    if (!first.hit) second(line, shared);
  }

  template <class Shared>
  void code(std::uint64_t line, Shared& shared) {
    if (line == last_code_) return;
    last_code_ = line;
    if (!l1i_.access(line, false).hit) second(line, shared);
  }

  // A process that forked starts with caches of its own.
  void clear() { *this = PrivateCaches(geometry_); }

 private:
  template <class Shared>
  void second(std::uint64_t line, Shared& shared) {
    const auto found = l2_.access(line, false);
    if (found.evicted_dirty != 0) shared.write_back(found.evicted_dirty - 1);
    if (!found.hit) shared.fetch(line);
  }

  LruCache l1i_;
  LruCache l1d_;
  LruCache l2_;
  Geometry geometry_;
  std::uint64_t last_ = ~std::uint64_t{0};
  std::uint64_t last_code_ = ~std::uint64_t{0};
  bool last_stored_ = false;
};

}  // namespace osml::stackdist
