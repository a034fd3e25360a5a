// Readings of mon_data. A read of the kernel's file succeeds with a word where there is no number; the word is a
// state here, never 0. Totals (mbm_*) count bytes since the group was made; treat any decrease as a reset.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/files.h"

namespace osml::resctrl {

// Domains come with CPUs, which are rarely switched on, and a look for them costs as much as reading one. Node time.
constexpr double seconds_between_looks = 60;

enum class ReadingState {
  Value,
  Unavailable,  // transient: no traffic yet, counter being reassigned
  Error,        // the hardware does not know the event or the RMID
  Unassigned,   // no counter assigned to this group (AMD, mbm_event mode)
  Missing,      // no such file: event not supported here, or the group or domain has gone
};

struct Reading {
  ReadingState state = ReadingState::Missing;
  std::uint64_t value = 0;  // bytes; meaningful for Value only
};

// One event file's text: a word or a number, with the newline that the kernel prints.
Reading parse_reading(std::string_view text);

// Sum of an event over all cache domains (mon_data/mon_L3_*) of a group. Value only where every domain has one, so
// that a difference of two sums is never the effect of a domain that was silent once; else the worst state seen.
Reading read_event(const fs::path& group, std::string_view event);

// The event of a domain's directory that counts memory traffic: all of it, or that to the own memory alone where the
// hardware counts no other. The files decide, not what they say: a counter that is silent once is no other counter.
std::string_view traffic_event(const fs::path& domain);
// The same of a group, summed up.
Reading read_traffic(const fs::path& group);

}  // namespace osml::resctrl
