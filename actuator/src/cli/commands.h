// The subcommands of osml-agent, behind main.cpp's parsing. Each prints its result to standard output (a table, or one
// JSON document) and returns what the exit code is made of.
#pragma once

#include <ostream>
#include <string>

#include "base/result.h"
#include "config/config.h"
#include "replay/record_file.h"

namespace osml::cli {

struct Options {
  fs::path config = "/etc/osml/agent.yaml";
  bool config_given = false;
  fs::path state_dir;  // restore only: its journal is taken, without a configuration
  bool json = false;
  bool dry_run = false;
  bool fault_injection = false;
  // Overrides of the configuration's roots; empty = as configured.
  fs::path resctrl_root, cgroup_root, proc_root, sysfs_root;
};

// The command line's roots on top of others.
void override_roots(const Options& options, Roots& roots);
// The configuration with the command line's roots on top.
Result<Config> load(const Options& options);

// What this machine can do. Works without a configuration; then it says what the machine offers in general.
Status probe(const Options& options, std::ostream& out);
// The partition as the machine has it now.
Status show(const Options& options, std::ostream& out);
// One decision by hand.
Status apply(const Options& options, const fs::path& decision, std::ostream& out);
// What `run --record` wrote, applied once more, decision by decision, and compared with what came of it then.
struct Replaying {
  fs::path file;
  SeqRange range;
  std::optional<double> pace;  // node time per wall time; absent = as fast as it goes
};
Status replay(const Options& options, const Replaying& wanted, std::ostream& out);
// What each throttle of memory bandwidth gives `service`, a job that takes all it can get; the curve goes to `file`.
struct Calibration {
  std::string service;
  fs::path file = "mba-curve.json";
  double settle_s = 1;
  double measure_s = 3;
  unsigned points = 20;
};
Status calibrate_mba(const Options& options, const Calibration& calibration, std::ostream& out);
// The NRI plugin, until it is stopped: containers of services get what they are to have before they run.
struct Nri {
  fs::path socket = "/var/run/nri/nri.sock";
  std::string index = "90";
  double wait_s = 0.7;
};
Status nri(const Options& options, const Nri& wanted);
// Back to what was found. Where the configuration is wrong, by the journal of the usual state directory.
// `obey_on_exit`: only where on_exit says so, for a service manager that runs it after every end of the daemon.
Status restore(const Options& options, bool obey_on_exit, std::ostream& out);

}  // namespace osml::cli
