// A file that is replaced whole whenever it is written, for readers that come at any time. Not flushed to the disk:
// what it says is of now, and a machine that crashed has no use for it.
#pragma once

#include <string_view>

#include "base/files.h"
#include "base/result.h"

namespace osml {

// Readable by everybody (0644), through a temporary file beside it whose name does not end in .prom.
Status replace_metrics_file(const fs::path& path, std::string_view text);

}  // namespace osml
