#include "base/rights.h"

#include <unistd.h>

#include "base/files.h"
#include "base/number.h"

namespace osml {

namespace {

constexpr unsigned sys_nice = 23;  // CAP_SYS_NICE

}  // namespace

bool may_set_others() {
  const auto status = read_text("/proc/self/status");
  if (!status) return false;
  for (const std::string_view line : split_lines(*status)) {
    if (!line.starts_with("CapEff:")) continue;
    const auto capabilities = parse_unsigned(trim(line.substr(7)), 16);
    return capabilities && (*capabilities >> sys_nice & 1U) != 0;
  }
  return false;
}

Error refused_setting(int code, const std::string& what) {
  Error error = errno_error(code, what);
  if (error.kind == ErrorKind::Permission && ::geteuid() != 0) error.message += "; run the agent as root";
  return error;
}

}  // namespace osml
