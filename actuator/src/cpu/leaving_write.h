// Writes to files of cpusets. The kernel moves pages between NUMA nodes when it is told new nodes, and answers when all
// have moved: a second for some GiB. Older kernels answer writes of CPUs only then, too, of whichever cgroup. The agent
// has one thread, which must not stand still so long.
#pragma once

#include <string>

#include "base/files.h"

namespace osml {

// Writes a list of CPUs or nodes, and leaves as soon as the file shows it; the answer of a write that takes longer is
// nobody's. Where the file shows it already nothing is written.
Status write_and_leave(const fs::path& file, const std::string& list);

}  // namespace osml
