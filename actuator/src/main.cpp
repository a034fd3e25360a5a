// osml-agent: parsing of the command line. What the subcommands do is in cli/ and daemon/.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

#include "agent_schema.h"
#include "cli/commands.h"
#include "daemon/daemon.h"

namespace {

using osml::cli::Options;

struct Arguments {
  Options options;
  osml::fs::path decision;
  std::optional<std::uint64_t> ticks;
  std::optional<osml::fs::path> stats;
  std::optional<osml::fs::path> record;
  bool once = false;
  osml::cli::Replaying replaying;
  osml::cli::Calibration calibration;
  osml::cli::Nri nri;
  bool obey_on_exit = false;
};

void add_common(CLI::App& command, Options& options) {
  command.add_option("--config", options.config, "Configuration file of this node")->capture_default_str();
  command.add_flag("--json", options.json, "One JSON document on standard output instead of a table");
  command.add_option("--resctrl-root", options.resctrl_root, "Mount point of resctrl");
  command.add_option("--cgroup-root", options.cgroup_root, "Mount point of the cgroup file systems");
  command.add_option("--proc-root", options.proc_root, "Mount point of procfs");
  command.add_option("--sysfs-root", options.sysfs_root, "Mount point of sysfs");
  command.add_flag("--fault-injection", options.fault_injection)->group("");  // for crash tests; not in the help
}

osml::Status run(const Arguments& arguments) {
  osml::RunOptions run;
  run.load = [options = arguments.options] { return osml::cli::load(options); };
  run.dry_run = arguments.options.dry_run;
  run.once = arguments.once;
  run.ticks = arguments.once ? std::optional<std::uint64_t>(1) : arguments.ticks;
  run.stats = arguments.stats;
  run.record = arguments.record;
  run.fault_injection = arguments.options.fault_injection;
  return osml::run_daemon(run);
}

void add_replay(CLI::App& command, osml::cli::Replaying& replaying) {
  command.add_option("FILE", replaying.file, "Record that osml-agent run --record wrote")->required();
  command.add_option("--from", replaying.range.from, "First decision, by its number");
  command.add_option("--to", replaying.range.to, "Last decision, by its number");
  command
      .add_option("--pace", replaying.pace, "Node time per wall time; 1 = recorded speed; default: as fast as possible")
      ->check(CLI::Range(0.001, 1000.0));
}

void add_nri(CLI::App& command, osml::cli::Nri& nri) {
  command.add_option("--socket", nri.socket, "Socket of the container runtime")->capture_default_str();
  command.add_option("--index", nri.index, "Two digits; the runtime asks its plugins in this order")
      ->check([](const std::string& text) {
        const bool digits = text.size() == 2 && text.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::string() : "--index: '" + text + "', expected two digits such as 90";
      })
      ->capture_default_str();
  command.add_option("--wait-s", nri.wait_s, "Longest time that a container waits for the agent, in seconds")
      ->check(CLI::Range(0.01, 5.0))
      ->capture_default_str();
}

// Fills `arguments` while parsing; returns what the chosen subcommand does.
std::function<osml::Status()> declare(CLI::App& app, Arguments& arguments) {
  auto chosen = std::make_shared<std::function<osml::Status()>>();
  const auto subcommand = [&](const char* name, const char* help, std::function<osml::Status()> work) {
    CLI::App* command = app.add_subcommand(name, help);
    add_common(*command, arguments.options);
    command->callback([&arguments, command, chosen, work = std::move(work)] {
      arguments.options.config_given = command->count("--config") > 0;
      *chosen = work;
    });
    return command;
  };
  subcommand("probe", "Show the mechanisms of this machine, and why some are not available",
             [&] { return osml::cli::probe(arguments.options, std::cout); });
  CLI::App* daemon = subcommand("run", "Measure, request a decision and apply it, once in each interval",
                                [&] { return run(arguments); });
  daemon->add_option("--ticks", arguments.ticks, "Stop after this number of intervals");
  daemon->add_flag("--once", arguments.once,
                   "Stop after one interval; exit code 4 if a service is not there, 1 without a decision");
  daemon->add_option("--record", arguments.record, "Append every observation and its decision to this file");
  daemon->add_option("--stats", arguments.stats, "Append the CPU and memory use of the agent to this file");
  subcommand("show", "Show the current partition of the machine",
             [&] { return osml::cli::show(arguments.options, std::cout); });
  CLI::App* apply = subcommand("apply", "Apply one decision from a file",
                               [&] { return osml::cli::apply(arguments.options, arguments.decision, std::cout); });
  apply->add_option("FILE", arguments.decision, "File with the decision, JSON")->required();
  CLI::App* restore = subcommand("restore", "Restore the settings from before the first change", [&] {
    return osml::cli::restore(arguments.options, arguments.obey_on_exit, std::cout);
  });
  restore->add_option("--state-dir", arguments.options.state_dir,
                      "Use the journal in this directory, and no configuration");
  restore->add_flag("--on-exit", arguments.obey_on_exit, "Restore nothing where on_exit is leave");
  CLI::App* replay = subcommand("replay", "Apply the decisions of a record again and compare the outcomes",
                                [&] { return osml::cli::replay(arguments.options, arguments.replaying, std::cout); });
  add_replay(*replay, arguments.replaying);
  CLI::App* calibrate =
      subcommand("calibrate-mba", "Measure the memory bandwidth of a running job at each throttle",
                 [&] { return osml::cli::calibrate_mba(arguments.options, arguments.calibration, std::cout); });
  osml::cli::Calibration& calibration = arguments.calibration;
  calibrate
      ->add_option("--service", calibration.service,
                   "Configured best-effort job that uses all memory bandwidth it gets, such as stream")
      ->required();
  calibrate->add_option("--out", calibration.file, "Output file for the curve")->capture_default_str();
  calibrate->add_option("--settle-s", calibration.settle_s, "Seconds to wait after each setting")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 600.0));
  calibrate->add_option("--measure-s", calibration.measure_s, "Seconds of each measurement")
      ->capture_default_str()
      ->check(CLI::Range(0.05, 600.0));
  calibrate->add_option("--points", calibration.points, "Largest number of settings to measure")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
  CLI::App* nri = subcommand("nri", "Run the NRI plugin: a container starts with the CPUs and cache of its service",
                             [&] { return osml::cli::nri(arguments.options, arguments.nri); });
  add_nri(*nri, arguments.nri);
  // It looks at nothing of this machine, so it takes none of the options.
  app.add_subcommand("schema", "Print the JSON schema of the configuration")->callback([chosen] {
    *chosen = [] {
      std::cout << osml::cli::agent_schema;
      return osml::done();
    };
  });
  for (CLI::App* command : {daemon, apply, restore, replay, calibrate}) {
    command->add_flag("--dry-run", arguments.options.dry_run, "Print what would change, and change nothing");
  }
  return [chosen] { return (*chosen)(); };
}

int run_main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("osml-agent"));
  CLI::App app("Keeps the latency-critical services of this node within their latency targets.", "osml-agent");
  app.set_version_flag("--version", OSML_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  const auto work = declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return osml::exit_code(osml::ErrorKind::Input);
  }
  const osml::Status status = work();
  if (status) return 0;
  std::cerr << "osml-agent: " << status.error().message << '\n';
  return osml::exit_code(status.error().kind);
}

}  // namespace

int main(int argc, char** argv) {
  // A reader of the output that goes (`| head`), and a server that closes a TLS connection, are failed writes; the
  // signal would end the agent in the midst of its work.
  (void)std::signal(SIGPIPE, SIG_IGN);
  try {
    return run_main(argc, argv);
  } catch (const std::exception& problem) {  // out of memory; nothing of ours throws
    std::cerr << "osml-agent: " << problem.what() << '\n';
    return 1;
  }
}
