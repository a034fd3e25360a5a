#include "shared_model.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <new>

namespace osml::stackdist {

namespace {

constexpr std::uint64_t kMostSets = std::uint64_t{1} << 24U;
constexpr int kTurns = 200'000;  // looks at a lock, with the CPU given away in between, before it is taken over

class Held {
 public:
  explicit Held(GroupLock& lock) : lock_(lock) {
    for (int turn = 0; lock_.held.exchange(1, std::memory_order_acquire) != 0; ++turn) {
      if (turn > kTurns) break;
      if (turn % 16 == 15) sched_yield();
    }
  }
  ~Held() { lock_.held.store(0, std::memory_order_release); }
  Held(const Held&) = delete;
  Held(Held&&) = delete;
  Held& operator=(const Held&) = delete;
  Held& operator=(Held&&) = delete;

 private:
  GroupLock& lock_;
};

std::size_t stacks_bytes(const Geometry& geometry) {
  return std::size_t{kVariants} * geometry.sampled_sets() * geometry.ways * sizeof(Line);
}

std::size_t file_bytes(const Geometry& geometry) { return sizeof(Shared) + kSeenBits / 8 + stacks_bytes(geometry); }

Result<bool> checked(const PrivateCache& cache, const std::string& name) {
  if (cache.ways < 1 || cache.ways > kMaxWays || cache.kib < 1 || cache.kib > 65536 ||
      cache.kib * 1024 % (cache.ways * kLineBytes) != 0) {
    return Error{ErrorKind::Input,
                 name + " is " + std::to_string(cache.kib) + " KiB with " + std::to_string(cache.ways) +
                     " ways, expected 1 to 65536 KiB that divide into sets of 64-byte lines",
                 0};
  }
  return true;
}

Result<bool> checked(const Geometry& geometry) {
  for (const auto& [cache, name] :
       {std::pair{geometry.l1i, "L1 of code"}, std::pair{geometry.l1d, "L1 of data"}, std::pair{geometry.l2, "L2"}}) {
    auto found = checked(cache, name);
    if (!found) return found;
  }
  if (geometry.ways < 1 || geometry.ways > kMaxWays) {
    return Error{ErrorKind::Input, "ways is " + std::to_string(geometry.ways) + ", expected 1 to 64", 0};
  }
  if (geometry.sample_shift > 20 || geometry.sets > kMostSets || geometry.sampled_sets() < kGroups) {
    return Error{ErrorKind::Input,
                 "sets is " + std::to_string(geometry.sets) + " with one in 2^" +
                     std::to_string(geometry.sample_shift) +
                     " sampled, expected at least 16 sampled and at most 16777216",
                 0};
  }
  if (!geometry.hashed && geometry.sample_shift != 0) {
    return Error{ErrorKind::Input, "sampling needs hashed sets: leave out --modulo, or sample all sets", 0};
  }
  return true;
}

Result<Shared*> mapped(int descriptor, std::size_t bytes, const std::string& path) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (map == MAP_FAILED) return errno_error(errno, "map " + path);
  return static_cast<Shared*>(map);
}

}  // namespace

Result<SharedModel> SharedModel::create(const std::string& path, const Geometry& geometry) {
  if (auto good = checked(geometry); !good) return good.error();
  unlink(path.c_str());
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno_error(errno, "create " + path);
  const std::size_t bytes = file_bytes(geometry);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const Error error = errno_error(errno, "enlarge " + path);
    close(descriptor);
    return error;
  }
  auto map = mapped(descriptor, bytes, path);
  close(descriptor);
  if (!map) return map.error();
  auto* shared = new (*map) Shared;
  shared->geometry = geometry;
  shared->magic = kMagic;
  return SharedModel(shared, bytes);
}

Result<SharedModel> SharedModel::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return errno_error(errno, "open " + path);
  struct stat found {};
  if (fstat(descriptor, &found) != 0 || static_cast<std::size_t>(found.st_size) < sizeof(Shared)) {
    close(descriptor);
    return Error{ErrorKind::Input, path + " is no file of osml-stackdist: make one with `osml-stackdist create`", 0};
  }
  const auto bytes = static_cast<std::size_t>(found.st_size);
  auto map = mapped(descriptor, bytes, path);
  close(descriptor);
  if (!map) return map.error();
  SharedModel model(*map, bytes);
  if (model.shared().magic != kMagic || !checked(model.geometry()) || file_bytes(model.geometry()) != bytes) {
    return Error{ErrorKind::Input, path + " is no file of osml-stackdist: make one with `osml-stackdist create`", 0};
  }
  return model;
}

SharedModel::~SharedModel() {
  if (map_ != nullptr) munmap(map_, bytes_);
}

bool SharedModel::place_of(std::uint64_t line, std::uint64_t& set) const {
  const Geometry& geometry = map_->geometry;
  if (!geometry.hashed) {
    set = line % geometry.sets;
    return true;
  }
  // The high half of the product is evenly spread over 0..sets-1 (Lemire 2019).
  const std::uint64_t half = mix(line ^ mix(geometry.seed)) >> 32U;
  set = (half * geometry.sets) >> 32U;
  return set < geometry.sampled_sets();
}

std::atomic<std::uint64_t>* SharedModel::seen_words() const {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(reinterpret_cast<char*>(map_) + sizeof(Shared));
}

Line* SharedModel::stack_of(std::uint32_t variant, std::uint64_t set) const {
  char* stacks = reinterpret_cast<char*>(map_) + sizeof(Shared) + kSeenBits / 8;
  const Geometry& geometry = map_->geometry;
  return reinterpret_cast<Line*>(stacks) + (variant * geometry.sampled_sets() + set) * geometry.ways;
}

bool SharedModel::first_seen(std::uint64_t line) {
  const std::uint64_t bit = mix(~line ^ mix(map_->geometry.seed + 1)) % kSeenBits;
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  return (seen_words()[bit / 64].fetch_or(mask, std::memory_order_relaxed) & mask) == 0;
}

void SharedModel::fetch(std::uint64_t line, StreamPrefetcher& streams) {
  const std::uint32_t ways = map_->geometry.ways;
  const auto use = [&](std::uint32_t variant, std::uint64_t set, std::uint64_t which, bool cold, bool prefetch) {
    const Touched found = touch(stack_of(variant, set), ways, which + 1);
    if (map_->measuring.load(std::memory_order_relaxed) == 0) return;
    GroupCounts& counts = map_->slices[map_->current_slice.load(std::memory_order_relaxed)].groups[set % kGroups];
    const std::uint32_t place = found.depth < ways ? found.depth : cold ? kCold : kBeyond;
    ++(prefetch ? counts.prefetched : counts.demand[variant])[place];
    for (std::uint32_t w = found.written_from; w < found.written_to; ++w) ++counts.written[variant][w - 1];
    for (std::uint64_t w = found.dropped_from; w <= ways; ++w) ++counts.written[variant][w - 1];
  };
  std::uint64_t set = 0;
  if (place_of(line, set)) {
    const Held held(map_->locks[set % kGroups]);
    const bool cold = first_seen(line);
    use(0, set, line, cold, false);
    use(1, set, line, cold, false);
  }
  streams.miss(line, [&](std::uint64_t ahead) {
    std::uint64_t its = 0;
    if (!place_of(ahead, its)) return;
    const Held held(map_->locks[its % kGroups]);
    use(1, its, ahead, false, true);
  });
}

void SharedModel::write_back(std::uint64_t line) {
  std::uint64_t set = 0;
  if (!place_of(line, set)) return;
  const Held held(map_->locks[set % kGroups]);
  for (std::uint32_t variant = 0; variant < kVariants; ++variant) {
    const Touched found = stackdist::write_back(stack_of(variant, set), map_->geometry.ways, line + 1);
    if (map_->measuring.load(std::memory_order_relaxed) == 0) continue;
    GroupCounts& counts = map_->slices[map_->current_slice.load(std::memory_order_relaxed)].groups[set % kGroups];
    for (std::uint32_t w = 1; w <= found.depth; ++w) ++counts.written[variant][w - 1];
    for (std::uint32_t w = found.written_from; w < found.written_to; ++w) ++counts.written[variant][w - 1];
  }
}

void SharedModel::ran(std::uint64_t instructions) {
  map_->instructions.fetch_add(instructions, std::memory_order_relaxed);
  if (map_->measuring.load(std::memory_order_relaxed) == 0) return;
  const Held held(map_->slice_lock);
  const std::uint64_t all = map_->measured_instructions.load() + instructions;
  map_->measured_instructions.store(all);
  map_->slices[map_->current_slice.load()].instructions += instructions;
  const std::uint64_t now = all / map_->slice_length.load();
  if (now < kSlices) {
    map_->current_slice.store(static_cast<std::uint32_t>(now));
    return;
  }
  merge_slices();
}

// Two slices become one, of twice the length. The groups' locks keep everybody else from counting meanwhile.
void SharedModel::merge_slices() {
  for (auto& lock : map_->locks) {
    for (int turn = 0; lock.held.exchange(1, std::memory_order_acquire) != 0 && turn < kTurns; ++turn) sched_yield();
  }
  const auto add = [](auto& to, const auto& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  while (map_->measured_instructions.load() / map_->slice_length.load() >= kSlices) {
    for (std::uint32_t i = 0; i < kSlices; ++i) {
      if (i >= kSlices / 2) {
        map_->slices[i] = Slice{};
        continue;
      }
      if (i != 0) map_->slices[i] = map_->slices[std::size_t{2} * i];
      Slice& to = map_->slices[i];
      const Slice& from = map_->slices[std::size_t{2} * i + 1];
      to.instructions += from.instructions;
      for (std::uint32_t group = 0; group < kGroups; ++group) {
        add(to.groups[group].prefetched, from.groups[group].prefetched);
        for (std::uint32_t variant = 0; variant < kVariants; ++variant) {
          add(to.groups[group].demand[variant], from.groups[group].demand[variant]);
          add(to.groups[group].written[variant], from.groups[group].written[variant]);
        }
      }
    }
    map_->slice_length.store(2 * map_->slice_length.load());
  }
  map_->current_slice.store(static_cast<std::uint32_t>(map_->measured_instructions.load() / map_->slice_length.load()));
  for (auto& lock : map_->locks) lock.held.store(0, std::memory_order_release);
}

void SharedModel::start() {
  map_->measuring.store(0);
  const Held held(map_->slice_lock);
  for (auto& slice : map_->slices) slice = Slice{};
  map_->measured_instructions.store(0);
  map_->current_slice.store(0);
  map_->slice_length.store(kFirstSlice);
  map_->measuring.store(1);
}

double SharedModel::distinct_lines() const {
  std::uint64_t ones = 0;
  const auto* words = seen_words();
  for (std::uint64_t i = 0; i < kSeenBits / 64; ++i) {
    ones += static_cast<std::uint64_t>(std::popcount(words[i].load(std::memory_order_relaxed)));
  }
  const auto bits = static_cast<double>(kSeenBits);
  return -bits * std::log1p(-static_cast<double>(ones) / bits);
}

}  // namespace osml::stackdist
