// osml-loadgen: drives redis, memcached, MySQL and HTTP servers at Poisson rates in an open loop and measures them.
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <set>

#include "engine.h"
#include "realtime.h"

namespace {

volatile std::sig_atomic_t g_stop = 0;  // the only thing that a signal handler may touch

// Blocked except while waiting, so that no signal falls between the look at g_stop and the wait.
void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { g_stop = 1; };
  sigset_t blocked{};
  sigemptyset(&blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    sigaction(signal, &action, nullptr);
    sigaddset(&blocked, signal);
  }
  sigprocmask(SIG_BLOCK, &blocked, nullptr);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

int fail(const osml::Error& error) {
  std::cerr << "osml-loadgen: " << error.message << '\n';
  return osml::exit_code(error.kind);
}

int run(int argc, char** argv) {
  osml::loadgen::EngineOptions options;
  std::vector<std::string> services;
  bool no_precedence = false;
  CLI::App app{
      "Open-loop load generator. A Poisson process sets the due time of each request. Latency is measured from the due "
      "time, so it includes queueing. Standard input accepts 'rate SERVICE REQUESTS_PER_S', 'mark LABEL' and 'quit'."};
  app.add_option(
         "--service", services,
         "name=N,protocol=redis|memcached|http|mysql,address=IPv4:PORT[,rate=PER_S][,connections=8][,requests=FILE][,"
         "output=FILE]")
      ->required();
  app.add_option("--interval-s", options.interval_s, "Seconds between telemetry lines")
      ->check(CLI::Range(0.05, 3600.0));
  app.add_option("--duration-s", options.duration_s,
                 "Stop after this number of seconds; 0 = until 'quit' or end of input")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--seed", options.seed, "Seed of all arrival times and request mixes");
  app.add_flag("--no-precedence", no_precedence, "Stay at normal priority (for tests)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::set<std::string> names;
  for (const auto& text : services) {
    const auto spec = osml::loadgen::parse_service(text);
    if (!spec) return fail(spec.error());
    if (!names.insert(spec->name).second) {
      return fail({osml::ErrorKind::Input,
                   "service '" + spec->name + "' is given twice; give each service a different name", 0});
    }
    options.services.push_back(*spec);
  }
  catch_signals();
  const auto engine = osml::loadgen::Engine::create(options, &g_stop);
  if (!engine) return fail(engine.error());
  (*engine)->set_scheduling(no_precedence ? "normal" : osml::loadgen::take_precedence());
  const auto ran = (*engine)->run();
  return ran ? 0 : fail(ran.error());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {  // out of memory; nothing of ours throws
    std::cerr << "osml-loadgen: " << problem.what() << '\n';
    return 1;
  }
}
