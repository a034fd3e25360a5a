#include "trace.h"

#include <charconv>
#include <string_view>

namespace osml::stackdist {

namespace {

struct Access {
  char kind = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

bool parse(std::string_view line, Access& access) {
  const std::size_t at = line.find_first_not_of(' ');
  if (at > 1 || line.size() < at + 4) return false;  // npos, too
  access.kind = line[at];
  std::string_view rest = line.substr(at + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const char* end = rest.data() + rest.size();
  const auto address = std::from_chars(rest.data(), end, access.address, 16);
  if (address.ec != std::errc{} || address.ptr == end || *address.ptr != ',') return false;
  const auto bytes = std::from_chars(address.ptr + 1, end, access.bytes, 10);
  return bytes.ec == std::errc{} && bytes.ptr == end && access.bytes >= 1 && access.bytes <= 4096 &&
         access.address <= ~std::uint64_t{0} - access.bytes;
}

}  // namespace

Result<TraceCounts> run_trace(std::istream& text, Core& core) {
  TraceCounts counts;
  std::string line;
  for (std::uint64_t number = 1; std::getline(text, line); ++number) {
    if (line.empty() || line.starts_with("==")) continue;
    Access access;
    if (!parse(line, access) || std::string_view("ILSM").find(access.kind) == std::string_view::npos) {
      return Error{ErrorKind::Input,
                   "line " + std::to_string(number) + " of the trace is '" + line.substr(0, 60) +
                       "', expected I, L, S or M with a hexadecimal address and a size",
                   0};
    }
    if (access.kind == 'I') {
      ++counts.instructions;
      core.code(access.address);
      core.code(access.address + access.bytes - 1);
      core.ran(1);
      continue;
    }
    ++counts.accesses;
    core.data(access.address, access.bytes, access.kind != 'L');
  }
  core.flush();
  return counts;
}

}  // namespace osml::stackdist
