// osml-latency: listens to what a service says about its requests, and tells the agent their latency once an interval.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <iostream>

#include "complaint.h"
#include "datagrams.h"
#include "endpoint.h"
#include "otlp/exports.h"
#include "otlp/gather.h"

namespace {

using Clock = std::chrono::steady_clock;
using osml::latency::Source;

volatile std::sig_atomic_t g_stop = 0;  // the only thing that a signal handler may touch

struct Options {
  std::string listen;
  std::string to;
  std::string format = "log";
  std::string name;
  std::string unit = "s";
  std::vector<std::string> attributes;
  double interval_s = 1.0;
};

int fail(const osml::Error& error) {
  std::cerr << "osml-latency: " << error.message << '\n';
  return osml::exit_code(error.kind);
}

osml::Error wrong(const std::string& sentence) { return {osml::ErrorKind::Input, sentence, 0}; }

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

// "KEY=VALUE", where the value may have further signs of equality.
osml::Result<std::vector<std::pair<std::string, std::string>>> pairs_of(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return wrong("--attribute is '" + text + "', expected KEY=VALUE such as service.name=search");
    }
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return pairs;
}

osml::Result<std::unique_ptr<Source>> exports_of(const Options& options, double unit_ms) {
  auto attributes = pairs_of(options.attributes);
  if (!attributes) return attributes.error();
  osml::latency::otlp::Selection selection;
  if (!options.name.empty()) selection.name = options.name;
  selection.attributes = std::move(*attributes);
  selection.unit_ms = unit_ms;
  auto listener = osml::latency::listen_http(options.listen);
  if (!listener) return listener.error();
  auto exports = osml::latency::otlp::Exports::open(std::move(*listener), selection, options.interval_s);
  if (!exports) return exports.error();
  return std::unique_ptr<Source>(std::move(*exports));
}

osml::Result<std::unique_ptr<Source>> source_of(const Options& options) {
  const double unit_ms = osml::latency::otlp::unit_in_ms(options.unit).value_or(1.0);
  if (options.format == "otlp") return exports_of(options, unit_ms);
  if (!options.attributes.empty()) {
    return wrong("--attribute is '" + options.attributes.front() + "', expected none without --format otlp");
  }
  if (options.listen.starts_with("http:")) {
    return wrong("--listen is '" + options.listen + "', expected udp:ADDRESS:PORT or unix:PATH without --format otlp");
  }
  auto socket = osml::latency::listen_at(options.listen);
  if (!socket) return socket.error();
  osml::latency::Format format{options.format == "statsd", "osml", unit_ms};
  if (!options.name.empty()) format.name = options.name;
  return std::unique_ptr<Source>(std::make_unique<osml::latency::Datagrams>(std::move(*socket), format));
}

void wait(const Source& source, double most_s) {
  const double wait_s = std::max(0.0, std::min(most_s, source.most_wait_s()));
  pollfd waiting{source.fd(), POLLIN, 0};
  timespec most{};
  most.tv_sec = static_cast<time_t>(wait_s);
  most.tv_nsec = static_cast<long>((wait_s - static_cast<double>(most.tv_sec)) * 1e9);
  sigset_t none{};
  sigemptyset(&none);
  (void)::ppoll(&waiting, 1, &most, &none);
}

// ppoll lets a signal through only where it has to wait, and a flood leaves it nothing to wait for.
bool stopped() {
  sigset_t pending{};
  return g_stop != 0 ||
         (sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1));
}

int listen(const Options& options) {
  const auto source = source_of(options);
  if (!source) return fail(source.error());
  auto outlet = osml::latency::Outlet::open(options.to);
  if (!outlet) return fail(outlet.error());
  osml::latency::Complaint unsent;
  auto began = Clock::now();
  while (!stopped()) {
    wait(**source, options.interval_s - seconds_since(began));
    (*source)->receive();
    const double length_s = seconds_since(began);
    if (length_s < options.interval_s) continue;
    began = Clock::now();
    const auto line = (*source)->take(length_s);
    if (!line) continue;
    if (osml::Status sent = outlet->send(*line); !sent) {
      if (sent.error().kind != osml::ErrorKind::Gone) return fail(sent.error());
      unsent.say(sent.error().message);
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{
      "Reads latencies from the log datagrams or OpenTelemetry exports of a service, and sends percentiles to "
      "osml-agent.\n"
      "Example: osml-latency --listen udp:127.0.0.1:5514 --to unix:/run/osml/web.sock"};
  app.add_option("--listen", options.listen,
                 "udp:ADDRESS:PORT or unix:PATH: where the service sends to; http:ADDRESS:PORT for otlp")
      ->required();
  app.add_option("--to", options.to, "unix:PATH (latency.datagram of the agent) or file:PATH (latency.file)")
      ->required();
  app.add_option(
         "--format", options.format,
         "log: the number after NAME= in a line; statsd: timers NAME:VALUE|ms; otlp: histograms of OpenTelemetry")
      ->check(CLI::IsMember({"log", "statsd", "otlp"}))
      ->capture_default_str();
  app.add_option("--name", options.name,
                 "Key in the log line, StatsD metric (both: osml), or OpenTelemetry histogram "
                 "(http.server.request.duration)");
  app.add_option("--unit", options.unit,
                 "Unit of the number in a log line, or of a histogram without a unit; StatsD timers are always in ms")
      ->check(CLI::IsMember({"s", "ms", "us", "ns"}))
      ->capture_default_str();
  app.add_option("--attribute", options.attributes,
                 "otlp: KEY=VALUE of the resource or the point, such as service.name=search; may be repeated, all must "
                 "be there")
      ->allow_extra_args(false);
  app.add_option("--interval-s", options.interval_s, "Seconds between two lines")
      ->check(CLI::Range(0.05, 3600.0))  // as interval_s of the agent
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (app.count("--name") > 0 && options.name.empty()) return fail(wrong("--name is empty, expected a word"));

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
