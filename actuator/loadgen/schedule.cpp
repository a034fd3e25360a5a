#include "schedule.h"

#include <bit>
#include <cmath>

namespace osml::loadgen {

Random::Random(std::uint64_t seed) {
  for (auto& word : state_) {
    seed += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = seed;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    word = mixed ^ (mixed >> 31U);
  }
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17U;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::unit() { return (static_cast<double>(next() >> 11U) + 1.0) * 0x1.0p-53; }

PoissonSchedule::PoissonSchedule(double rate, std::uint64_t seed, Nanos start) : random_(seed), rate_(rate) {
  draw(start);
}

Nanos PoissonSchedule::pop() {
  const Nanos due = next_;
  draw(due);
  return due;
}

void PoissonSchedule::set_rate(double rate, Nanos now) {
  rate_ = rate;
  draw(now);
}

void PoissonSchedule::draw(Nanos from) {
  if (rate_ <= 0 || from == kNever) {
    next_ = kNever;
    return;
  }
  next_ = from + static_cast<Nanos>(std::llround(-std::log(random_.unit()) / rate_ * 1e9));
}

}  // namespace osml::loadgen
