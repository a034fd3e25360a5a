// What several series gained in one interval, together, whichever kind of histogram they have.
#pragma once

#include <vector>

#include "domain/exponential.h"
#include "domain/mixture.h"

namespace osml::latency::otlp {

class Mixture {
 public:
  // Bounds in milliseconds. False where it has a shape that is one more than most_shapes: it is not added.
  bool add(const Histogram& gained) { return add_part(plain_, gained); }
  // The same for units.
  bool add(const Exponential& gained);
  // Of all that was added: all but the rate and the age. None where nothing was observed. Then empty.
  std::optional<Latency> take();

 private:
  std::vector<Histogram> plain_;
  std::vector<Exponential> exponential_;
};

}  // namespace osml::latency::otlp
