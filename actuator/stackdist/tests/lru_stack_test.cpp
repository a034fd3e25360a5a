// The stack against what it stands for: one plain LRU cache for every number of ways, with a dirty bit a line.
#include "lru_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <vector>

namespace osml::stackdist {
namespace {

class PlainSet {
 public:
  explicit PlainSet(std::size_t ways) : ways_(ways) {}
  void use(std::uint64_t tag) {
    const auto at = std::find_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.first == tag; });
    if (at != lines_.end()) {
      lines_.splice(lines_.begin(), lines_, at);
      return;
    }
    ++misses;
    lines_.emplace_front(tag, false);
    if (lines_.size() > ways_) {
      written += lines_.back().second ? 1 : 0;
      lines_.pop_back();
    }
  }
  void write_back(std::uint64_t tag) {
    const auto at = std::find_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.first == tag; });
    if (at == lines_.end()) {
      ++written;
    } else {
      at->second = true;
    }
  }
  [[nodiscard]] std::uint64_t still_dirty() const {
    return static_cast<std::uint64_t>(
        std::count_if(lines_.begin(), lines_.end(), [](const auto& line) { return line.second; }));
  }
  std::uint64_t misses = 0;
  std::uint64_t written = 0;

 private:
  std::size_t ways_;
  std::list<std::pair<std::uint64_t, bool>> lines_;
};

class AgainstPlainLru : public ::testing::TestWithParam<unsigned> {};

TEST_P(AgainstPlainLru, MissesAndWriteBacksOfEveryNumberOfWaysAreTheSame) {
  std::mt19937_64 draw(GetParam());
  const std::uint32_t ways = 1 + static_cast<std::uint32_t>(draw() % 20);
  const std::uint64_t tags = 1 + draw() % 40;
  std::vector<Line> stack(ways);
  std::vector<PlainSet> plain;
  for (std::uint32_t w = 1; w <= ways; ++w) plain.emplace_back(w);
  std::vector<std::uint64_t> misses(ways, 0);
  std::vector<std::uint64_t> written(ways, 0);
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t tag = 1 + std::min(draw() % tags, draw() % tags);
    if (draw() % 3 == 0) {
      const Touched found = write_back(stack.data(), ways, tag);
      for (std::uint32_t w = 1; w <= found.depth; ++w) ++written[w - 1];
      for (std::uint32_t w = found.written_from; w < found.written_to; ++w) ++written[w - 1];
      for (auto& set : plain) set.write_back(tag);
      continue;
    }
    const Touched found = touch(stack.data(), ways, tag);
    for (std::uint32_t w = 1; w <= found.depth; ++w) ++misses[w - 1];
    for (std::uint32_t w = found.written_from; w < found.written_to; ++w) ++written[w - 1];
    for (std::uint64_t w = found.dropped_from; w <= ways; ++w) ++written[w - 1];
    for (auto& set : plain) set.use(tag);
  }
  for (std::uint32_t w = 1; w <= ways; ++w) {
    EXPECT_EQ(misses[w - 1], plain[w - 1].misses) << w << " ways";
    // A stack only learns of an eviction when the line is used again or falls off, so what lies there counts too.
    std::uint64_t waiting = 0;
    for (std::uint32_t depth = 0; depth < ways; ++depth) {
      if (stack[depth].tag != 0 && stack[depth].dirty_from <= w) ++waiting;
    }
    EXPECT_EQ(written[w - 1] + waiting, plain[w - 1].written + plain[w - 1].still_dirty()) << w << " ways";
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, AgainstPlainLru, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace osml::stackdist
