#include <cstdio>
#include <cstdlib>

#include "targets.h"

namespace osml::fuzz {

void promise(bool kept, const char* what) {
  if (kept) return;
  (void)std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace osml::fuzz
