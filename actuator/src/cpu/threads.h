// What is set thread by thread: on all threads of a service, those born meanwhile included, and put back on each.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cpu/members.h"

namespace osml {

// Whether this is the /proc of this kernel: ids of a simulated node's tasks are other processes here.
bool is_kernel_proc(const fs::path& proc);

// Passes over the threads of a service until one finds nothing to do: a thread born meanwhile inherits what its creator
// had. `change` says whether it had to change the thread. Busy where threads "still have <what>" after 1 s.
Status change_threads(const Roots& roots, const Match& match, const std::string& what,
                      const std::function<Result<bool>(pid_t)>& change);

// CAP_SYS_NICE: this process may bind and schedule the tasks of other users.
bool may_set_others();
// As errno_error, for a setting that the kernel did not take. Where the caller is not root and that is why, it says so.
Error refused_setting(int code, const std::string& what);

// Snapshots of threads: a line each, "<tid> <start time> <value>". The start time tells a thread from a later one with
// the same id.
class ThreadRecords {
 public:
  ThreadRecords(fs::path proc, std::string_view snapshot);

  // The line of a thread; empty where it has gone.
  static std::string line(const fs::path& proc, pid_t tid, const std::string& value);
  // The recorded value of a thread that is still there; nullptr for all others.
  [[nodiscard]] const std::string* find(pid_t tid) const;
  // The value of all records where it is one; null where there are several, or no record.
  [[nodiscard]] const std::string* common() const;
  // Threads of the service. A listed process that began after its record is another one with the same id: not of the
  // service.
  [[nodiscard]] Result<std::vector<pid_t>> members(const Roots& roots, Match match) const;
  // These threads and all recorded ones that are still there, ascending.
  [[nodiscard]] std::vector<pid_t> with_recorded(std::vector<pid_t> tids) const;

 private:
  struct Record {
    std::string start_time;
    std::string value;
  };

  fs::path proc_;
  std::map<pid_t, Record> records_;
};

}  // namespace osml
