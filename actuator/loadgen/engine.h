// The loop: sleeps in epoll until a request is due or a reply is here. One thread.
//
// Lines on standard input steer it: "rate NAME REQUESTS_PER_S", "mark LABEL", "quit". A mark ends a phase and puts what
// was measured since the last one on standard output as one JSON line. When standard input ends, so does the program:
// a generator must not outlive whoever started it.
#pragma once

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"

namespace osml::loadgen {

struct EngineOptions {
  std::vector<ServiceSpec> services;
  double interval_s = 1.0;
  double duration_s = 0;  // 0 = until quit, a signal or the end of standard input
  std::uint64_t seed = 0;
};

class Engine {
 public:
  // Opens epoll and the telemetry files. `stop` is set by a signal handler; the signals are blocked outside of waits.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options, const volatile std::sig_atomic_t* stop);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // What take_precedence() said; goes into the marks.
  void set_scheduling(std::string scheduling) { scheduling_ = std::move(scheduling); }
  // Until the end; then one last mark "end". Error Io where a service never answered, though it was asked.
  Status run();

 private:
  Engine(EngineOptions options, const volatile std::sig_atomic_t* stop);
  Status open_files();
  void wait_until(Nanos time);
  Status write_intervals(Nanos now);
  void tell_silence();
  [[nodiscard]] Status all_answered() const;
  void read_control();
  void on_line(std::string_view line);
  void mark(std::string_view label);

  EngineOptions options_;
  const volatile std::sig_atomic_t* stop_;
  std::vector<std::unique_ptr<Target>> targets_;
  std::vector<int> outputs_;
  std::string scheduling_ = "normal";
  std::string control_;  // a line that has not ended yet
  int epoll_ = -1;
  Nanos interval_end_ = 0;
  Nanos next_look_ = 0;  // for services that do not answer
  bool quit_ = false;
};

}  // namespace osml::loadgen
