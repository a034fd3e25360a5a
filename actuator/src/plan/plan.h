// From what is to what shall be, in an order in which no service is ever without CPUs or ways and nothing is given to
// a service before another has let go of it: groups are made, everybody shrinks to what old and new have in common,
// then everybody grows and tasks move in. Clocks go up before all that and down after it, so that nobody comes to CPUs
// that are slower than the decision says. Memory follows at the very end, since moving it takes time. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/knob.h"

namespace osml {

// One knob as the machine has it and as the decision wants it.
struct Change {
  std::string service;
  Aspect aspect = Aspect::Cpus;
  std::string now;                        // Knob::read(); empty = not set
  std::string wanted;                     // differs from now in meaning
  std::optional<std::string> found = {};  // the snapshot to go back to, where the decision says nothing of the knob
};

struct Step {
  std::size_t change = 0;  // index into the changes that the plan was made of
  std::string value;
};

// Masks of an intermediate step must be legal on this cache.
struct MaskRules {
  unsigned min_bits = 1;
  bool sparse = false;
};

std::vector<Step> plan(const std::vector<Change>& changes, const MaskRules& rules);

// "moses: cpus 0-3 -> 0-5"; a value that is not set is "-".
std::string describe(const Change& change, const Step& step);

}  // namespace osml
