#include "engine.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <nlohmann/json.hpp>

namespace osml::loadgen {
namespace {

constexpr std::uint64_t kControlKey = ~std::uint64_t{0};
constexpr std::size_t kMaxControlLine = 4096;
constexpr Nanos kLookEvery = kSecond;

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Engine::Engine(EngineOptions options, const volatile std::sig_atomic_t* stop)
    : options_(std::move(options)), stop_(stop), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Engine::~Engine() {
  targets_.clear();
  for (const int fd : outputs_) {
    if (fd >= 0) ::close(fd);
  }
  if (epoll_ >= 0) ::close(epoll_);
}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options, const volatile std::sig_atomic_t* stop) {
  std::unique_ptr<Engine> engine(new Engine(options, stop));
  if (engine->epoll_ < 0) return errno_error(errno, "epoll");
  const auto opened = engine->open_files();
  if (!opened) return opened.error();
  const Nanos now = clock_now();
  std::uint32_t index = 0;
  for (const auto& spec : options.services) {
    // Each service has its own stream, so that changing one does not move the requests of the others.
    const std::uint64_t seed = options.seed * 1000 + index;
    engine->targets_.push_back(std::make_unique<Target>(spec, seed, engine->epoll_, index, now));
    ++index;
  }
  engine->interval_end_ = now + from_seconds(options.interval_s);
  engine->next_look_ = now + kLookEvery;
  return engine;
}

Status Engine::open_files() {
  for (const auto& spec : options_.services) {
    int fd = -1;
    if (!spec.output.empty()) {
      fd = ::open(spec.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
      if (fd < 0) return errno_error(errno, "cannot open output '" + spec.output + "' of service '" + spec.name + "'");
    }
    outputs_.push_back(fd);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kControlKey;
  // A file or /dev/null as standard input cannot be waited for (EPERM): then there is no control, which is fine.
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0 && errno != EPERM && errno != EBADF) {
    return errno_error(errno, "cannot watch standard input");
  }
  return done();
}

Status Engine::run() {
  const Nanos end = options_.duration_s > 0 ? clock_now() + from_seconds(options_.duration_s) : kNever;
  while (!quit_ && *stop_ == 0) {
    const Nanos now = clock_now();
    if (now >= end) break;
    for (auto& target : targets_) target->advance(now);
    if (now >= interval_end_) {
      auto written = write_intervals(now);
      if (!written) return written;
    }
    if (now >= next_look_) {
      tell_silence();
      next_look_ = now + kLookEvery;
    }
    Nanos next = std::min(interval_end_, end);
    for (const auto& target : targets_) next = std::min(next, target->next_event());
    wait_until(next);
  }
  mark("end");
  return all_answered();
}

void Engine::tell_silence() {
  for (const auto& target : targets_) {
    if (const auto silence = target->silence()) std::cerr << "osml-loadgen: " << *silence << '\n';
  }
}

Status Engine::all_answered() const {
  for (const auto& target : targets_) {
    const auto silence = target->never_answered();
    if (!silence) continue;
    return Error{ErrorKind::Io, *silence + " in the whole run; start the service, or mend its address in --service", 0};
  }
  return done();
}

// Replies are handled before requests that became due meanwhile, so that those find the connections free.
void Engine::wait_until(Nanos time) {
  std::array<epoll_event, 64> events{};
  const Nanos left = std::max<Nanos>(0, time - clock_now());
  const timespec timeout{left / kSecond, left % kSecond};
  sigset_t unblocked{};
  ::sigemptyset(&unblocked);
  const int count = ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &timeout, &unblocked);
  for (int i = 0; i < count; ++i) {
    const auto& event = events.at(static_cast<std::size_t>(i));
    if (event.data.u64 == kControlKey) {
      read_control();
    } else {
      const auto index = static_cast<std::size_t>(event.data.u64 >> 32U);
      targets_[index]->on_event(static_cast<std::uint32_t>(event.data.u64 & 0xffffffffU), event.events);
    }
  }
}

Status Engine::write_intervals(Nanos now) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const std::string line = targets_[i]->interval_line(now);
    if (outputs_[i] < 0) continue;
    if (::write(outputs_[i], line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return errno_error(errno, "cannot write the telemetry file '" + targets_[i]->output() + "'");
    }
  }
  // From the schedule, not from now: intervals do not drift. After a stop of the whole process, start afresh.
  interval_end_ += from_seconds(options_.interval_s);
  if (interval_end_ <= now) interval_end_ = now + from_seconds(options_.interval_s);
  return done();
}

void Engine::read_control() {
  std::array<char, 1024> buffer{};
  const auto got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    if (options_.duration_s <= 0) quit_ = true;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    return;
  }
  control_.append(buffer.data(), static_cast<std::size_t>(got));
  for (auto newline = control_.find('\n'); newline != std::string::npos; newline = control_.find('\n')) {
    on_line(std::string_view(control_).substr(0, newline));
    control_.erase(0, newline + 1);
  }
  if (control_.size() > kMaxControlLine) control_.clear();
}

void Engine::on_line(std::string_view line) {
  if (line == "quit") {
    quit_ = true;
    return;
  }
  if (line.starts_with("mark ")) {
    mark(line.substr(5));
    return;
  }
  if (line.starts_with("rate ")) {
    const auto blank = line.rfind(' ');
    const auto name = blank > 5 ? line.substr(5, blank - 5) : std::string_view{};
    const auto rate = parse_rate(line.substr(blank + 1), "rate");
    const auto target = std::ranges::find_if(targets_, [&](const auto& each) { return each->name() == name; });
    if (rate && target != targets_.end()) {
      (*target)->set_rate(*rate, clock_now());
      return;
    }
  }
  std::cerr << "osml-loadgen: standard input: '" << line.substr(0, 200)
            << "' ignored: expected 'rate SERVICE REQUESTS_PER_S', 'mark LABEL' or 'quit'\n";
}

void Engine::mark(std::string_view label) {
  const Nanos now = clock_now();
  nlohmann::json services = nlohmann::json::object();
  for (const auto& target : targets_) services[target->name()] = target->phase(now);
  const nlohmann::json line = {{"mark", std::string(label)},
                               {"t", to_seconds(now)},
                               {"cpu_s", cpu_seconds()},
                               {"scheduling", scheduling_},
                               {"services", std::move(services)}};
  // A label may hold any bytes; bad UTF-8 is replaced, not thrown about.
  std::cout << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

}  // namespace osml::loadgen
