// osml-latency: listens to the request log of a service, and tells the agent its latency once an interval.
#include <poll.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>

#include "endpoint.h"
#include "interval.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_datagram = 65536;
constexpr double warn_every_s = 60;

volatile std::sig_atomic_t g_stop = 0;  // the only thing that a signal handler may touch

struct Options {
  std::string listen;
  std::string to;
  std::string format = "log";
  std::string unit = "s";
  double interval_s = 1.0;
  osml::latency::Format request;
};

int fail(const osml::Error& error) {
  std::cerr << "osml-latency: " << error.message << '\n';
  return osml::exit_code(error.kind);
}

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

// Says something now and then, with how often it happened meanwhile.
class Complaint {
 public:
  void say(const std::string& text) {
    ++count_;
    if (said_ && seconds_since(*said_) < warn_every_s) return;
    std::cerr << "osml-latency: " << text << " (" << count_ << " times)\n";
    said_ = Clock::now();
    count_ = 0;
  }

 private:
  std::optional<Clock::time_point> said_;
  std::uint64_t count_ = 0;
};

// All datagrams that have come.
void drain(int fd, const osml::latency::Format& format, osml::latency::Interval& interval, Complaint& unread) {
  static std::array<char, longest_datagram> buffer{};
  while (true) {
    const ssize_t length = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
    const bool any = read_requests(text, format, [&interval](const auto& request) { interval.add(request); });
    if (!any) {
      const std::string expected = format.statsd ? format.name + ":NUMBER|ms" : format.name + "=NUMBER";
      unread.say("a datagram has no latency, expected " + expected + "; check the log format of the service");
    }
  }
}

int listen(const Options& options) {
  const auto source = osml::latency::listen_at(options.listen);
  if (!source) return fail(source.error());
  auto outlet = osml::latency::Outlet::open(options.to);
  if (!outlet) return fail(outlet.error());
  osml::latency::Interval interval;
  Complaint unread;
  Complaint unsent;
  auto began = Clock::now();
  while (g_stop == 0) {
    const double left_s = std::max(0.0, options.interval_s - seconds_since(began));
    pollfd waiting{source->get(), POLLIN, 0};
    timespec most{};
    most.tv_sec = static_cast<time_t>(left_s);
    most.tv_nsec = static_cast<long>((left_s - static_cast<double>(most.tv_sec)) * 1e9);
    sigset_t none{};
    sigemptyset(&none);
    if (::ppoll(&waiting, 1, &most, &none) > 0) drain(source->get(), options.request, interval, unread);
    const double length_s = seconds_since(began);
    if (length_s < options.interval_s) continue;
    began = Clock::now();
    const auto line = interval.take(length_s);
    if (!line) continue;
    if (osml::Status sent = outlet->send(*line); !sent) {
      if (sent.error().kind != osml::ErrorKind::Gone) return fail(sent.error());
      unsent.say(sent.error().message + "; start the agent, or check --to");
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Reads the latency of each request from the log datagrams of a service, and sends percentiles to osml-agent.\n"
      "Example: osml-latency --listen udp:127.0.0.1:5514 --to unix:/run/osml/web.sock"};
  app.add_option("--listen", options.listen, "udp:ADDRESS:PORT or unix:PATH: where the service sends to")->required();
  app.add_option("--to", options.to, "unix:PATH (latency.datagram of the agent) or file:PATH (latency.file)")
      ->required();
  app.add_option("--format", options.format, "log: the number after NAME= in a line; statsd: timers NAME:VALUE|ms")
      ->check(CLI::IsMember({"log", "statsd"}))
      ->capture_default_str();
  app.add_option("--name", options.request.name, "Key in the log line, or StatsD metric")->capture_default_str();
  app.add_option("--unit", options.unit, "Unit of the number: s or ms; StatsD timers are always in ms")
      ->check(CLI::IsMember({"s", "ms"}))
      ->capture_default_str();
  app.add_option("--interval-s", options.interval_s, "Seconds between two lines")
      ->check(CLI::Range(0.1, 60.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.request.name.empty()) return fail({osml::ErrorKind::Input, "--name is empty, expected a word", 0});
  options.request.statsd = options.format == "statsd";
  options.request.unit_ms = options.unit == "s" ? 1000.0 : 1.0;

  // Blocked except in ppoll, so that no signal falls between the look at g_stop and the wait.
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop = 1; };
  sigset_t blocked{};
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&blocked, signal);
  }
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  return listen(options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {  // out of memory; nothing of ours throws
    std::cerr << "osml-latency: " << problem.what() << '\n';
    return 1;
  }
}
