// One core of the simulated machine: private caches and a prefetcher before the shared last level.
#pragma once

#include <cstdint>

#include "private_caches.h"
#include "shared_model.h"

namespace osml::stackdist {

class Core {
 public:
  // `salt` keeps the addresses of one process apart from those of another.
  Core(SharedModel& model, std::uint64_t salt) : model_(&model), caches_(model.geometry()), salt_(salt) {}

  // A load or store of `bytes` at an address.
  void data(std::uint64_t address, std::uint64_t bytes, bool store) {
    Port port{*this};
    const std::uint64_t first = address >> kLineShift;
    const std::uint64_t last = (address + bytes - 1) >> kLineShift;
    for (std::uint64_t line = first; line <= last; ++line) caches_.data(line ^ salt_, store, port);
  }

  // Code runs from the line of this address.
  void code(std::uint64_t address) {
    Port port{*this};
    caches_.code((address >> kLineShift) ^ salt_, port);
  }

  // Instructions are handed on in heaps.
  void ran(std::uint64_t instructions) {
    pending_ += instructions;
    if (pending_ >= kHeap) flush();
  }
  void flush() {
    if (pending_ != 0) model_->ran(pending_);
    pending_ = 0;
  }

  // In the child after a fork: what the parent has yet to hand on is not the child's.
  void forked(std::uint64_t salt) {
    pending_ = 0;
    salt_ = salt;
    caches_.clear();
  }

 private:
  static constexpr std::uint64_t kHeap = 1U << 14U;

  struct Port {
    Core& core;
    void fetch(std::uint64_t line) { core.model_->fetch(line, core.streams_); }
    void write_back(std::uint64_t line) { core.model_->write_back(line); }
  };

  SharedModel* model_;
  PrivateCaches caches_;
  StreamPrefetcher streams_;
  std::uint64_t salt_;
  std::uint64_t pending_ = 0;
};

}  // namespace osml::stackdist
