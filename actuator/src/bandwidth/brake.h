// Lets the tasks of a service stand still and go on: cgroup.freeze of its cgroup v2.
#pragma once

#include "base/files.h"
#include "config/config.h"

namespace osml {

class Brake {
 public:
  Brake(const Roots& roots, const Match& match);

  // Done = it can be used; the error says what is missing.
  [[nodiscard]] Status probe() const;
  Status engage() { return set("1\n"); }
  // A group that has gone is no error.
  Status release();

 private:
  Status set(const char* text) const;

  fs::path file_;  // empty where there is no cgroup v2
};

}  // namespace osml
