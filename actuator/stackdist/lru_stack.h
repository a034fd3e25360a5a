// One set of a cache of every associativity at once: a stack of lines in the order of their last use.
//
// A line found at depth d (0 is the line that was used last) is a hit with more than d ways and a miss with fewer:
// LRU has the stack property (Mattson, Gecsei, Slutz and Traiger 1970).
// Written lines carry the fewest ways with which they are still dirty (Thompson and Smith 1989), so that write-backs
// are known for every number of ways too.
#pragma once

#include <cstdint>

#include "geometry.h"

namespace osml::stackdist {

struct Line {
  std::uint64_t tag = 0;  // 0: nothing here
  std::uint64_t dirty_from = kClean;

  static constexpr std::uint64_t kClean = kMaxWays + 1;
};

struct Touched {
  std::uint32_t depth = 0;  // `ways` where the line is not in the stack
  // With `written_from` to `written_to - 1` ways the line had been written back since; none where they are equal.
  std::uint32_t written_from = 0;
  std::uint32_t written_to = 0;
  // The line that fell off the end was dirty with `dropped_from` to `ways` ways; above `ways`: it was clean.
  std::uint32_t dropped_from = Line::kClean;
};

inline std::uint32_t depth_of(const Line* stack, std::uint32_t ways, std::uint64_t tag) {
  std::uint32_t depth = 0;
  while (depth < ways && stack[depth].tag != tag) ++depth;
  return depth;
}

// Use a line: it goes to the top. `tag` is not 0.
inline Touched touch(Line* stack, std::uint32_t ways, std::uint64_t tag) {
  Touched found;
  found.depth = depth_of(stack, ways, tag);
  Line line{tag, Line::kClean};
  std::uint32_t last = found.depth;
  if (found.depth < ways) {
    line = stack[found.depth];
    if (line.dirty_from <= found.depth) {  // caches with so many ways had evicted it
      found.written_from = static_cast<std::uint32_t>(line.dirty_from);
      found.written_to = found.depth + 1;
      line.dirty_from = found.depth + 1;
    }
  } else {
    last = ways - 1;
    if (stack[last].tag != 0) found.dropped_from = static_cast<std::uint32_t>(stack[last].dirty_from);
  }
  for (; last > 0; --last) stack[last] = stack[last - 1];
  stack[0] = line;
  return found;
}

// A private cache writes a line back. Its place stays: that is no use by the program. Returns the depth: with so many
// ways or fewer the last level no longer has the line, and the write goes to memory (`ways`: with every number).
inline Touched write_back(Line* stack, std::uint32_t ways, std::uint64_t tag) {
  Touched found;
  found.depth = depth_of(stack, ways, tag);
  if (found.depth == ways) return found;
  Line& line = stack[found.depth];
  if (line.dirty_from <= found.depth) {  // and an older version of it went there, too
    found.written_from = static_cast<std::uint32_t>(line.dirty_from);
    found.written_to = found.depth + 1;
  }
  line.dirty_from = found.depth + 1;
  return found;
}

}  // namespace osml::stackdist
