#include "realtime.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace osml::loadgen {

std::string take_precedence() {
  ::mlockall(MCL_CURRENT | MCL_FUTURE);  // without the right to, page faults are rare enough after the first second
  ::prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  sched_param parameters{};
  parameters.sched_priority = 50;
  // A child must not inherit it, and there is none.
  if (::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &parameters) == 0) return "fifo";
  if (::setpriority(PRIO_PROCESS, 0, -20) == 0) return "nice -20";
  return "normal";
}

}  // namespace osml::loadgen
