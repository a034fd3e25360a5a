#include "domain/mixture.h"

#include <algorithm>
#include <cmath>

namespace osml {

namespace {

// Observations that lie evenly between two values, or all at one value.
struct Piece {
  double from;
  double to;
  double mass;
};

std::vector<Piece> pieces_of(const Histogram& histogram) {
  std::vector<Piece> pieces;
  double lower = 0;
  double below = 0;
  for (const Bucket& bucket : histogram.buckets) {
    const double mass = bucket.count - below;
    const double upper = std::isinf(bucket.upper) ? lower : std::max(bucket.upper, lower);
    // the first bucket of bounds that begin at 0 has no width, like what is beyond the last one
    if (mass > 0) pieces.push_back({lower, upper, mass});
    below = bucket.count;
    lower = upper;
  }
  return pieces;
}

std::vector<double> finite_bounds(const std::vector<Histogram>& parts) {
  std::vector<double> bounds;
  for (const Histogram& part : parts) {
    for (const Bucket& bucket : part.buckets) {
      if (std::isfinite(bucket.upper)) bounds.push_back(bucket.upper);
    }
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

// Adds to each pair of buckets how many observations are below its bound, and how many are at most it.
void add_pieces(const std::vector<Piece>& pieces, std::vector<Bucket>& pairs) {
  std::size_t next = 0;
  double whole = 0;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const double bound = pairs[i].upper;
    const auto pass = [&](bool points) {
      while (next < pieces.size() && pieces[next].to <= bound && (points || pieces[next].from < pieces[next].to)) {
        whole += pieces[next++].mass;
      }
      if (next == pieces.size() || pieces[next].from >= bound) return whole;
      const Piece& piece = pieces[next];
      return whole + piece.mass * (bound - piece.from) / (piece.to - piece.from);
    };
    pairs[i].count += pass(false);
    pairs[i + 1].count += pass(true);
  }
}

std::optional<double> both(const std::optional<double>& one, const std::optional<double>& other) {
  return one && other ? std::optional(*one + *other) : std::nullopt;
}

}  // namespace

bool add_part(std::vector<Histogram>& parts, const Histogram& gained) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const Histogram& one) { return same_bounds(one, gained); });
  if (found == parts.end()) {
    if (parts.size() == most_shapes) return false;
    parts.push_back(gained);
    return true;
  }
  for (std::size_t i = 0; i < gained.buckets.size(); ++i) found->buckets[i].count += gained.buckets[i].count;
  found->sum = both(found->sum, gained.sum);
  found->count = both(found->count, gained.count);
  return true;
}

Histogram mix(const std::vector<Histogram>& parts) {
  if (parts.size() == 1) return parts.front();
  Histogram mixed;
  mixed.sum = mixed.count = 0;
  for (const double bound : finite_bounds(parts)) mixed.buckets.insert(mixed.buckets.end(), 2, Bucket{bound, 0});
  for (const Histogram& part : parts) {
    add_pieces(pieces_of(part), mixed.buckets);
    mixed.sum = both(mixed.sum, part.sum);
    mixed.count = both(mixed.count, part.count);
  }
  return mixed;
}

}  // namespace osml
