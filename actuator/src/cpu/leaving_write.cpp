#include "cpu/leaving_write.h"

#include <chrono>
#include <fstream>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "base/cpuset.h"

namespace osml {

namespace {

constexpr auto look_pause = std::chrono::milliseconds(2);

// A plain file without a line, as in tests, is one that is just being written.
bool shows(const fs::path& file, const std::string& list) {
  std::ifstream text(file);
  std::string line;
  return std::getline(text, line) && is_same_cpulist(line, list);
}

}  // namespace

// A thread that comes late must not write over what was written after it, so none is started without need.
Status write_and_leave(const fs::path& file, const std::string& list) {
  if (shows(file, list)) return done();
  std::promise<Status> promise;
  std::future<Status> answer = promise.get_future();
  try {
    std::thread([answering = std::move(promise), file, text = list + "\n"]() mutable {
      answering.set_value(write_command(file, text));
    }).detach();
  } catch (const std::system_error&) {  // no more threads
    return write_command(file, list + "\n");
  }
  while (answer.wait_for(look_pause) != std::future_status::ready) {
    if (shows(file, list)) return done();
  }
  return answer.get();
}

}  // namespace osml
