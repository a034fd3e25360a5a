// Everything that hangs on one configuration, built together and torn down together: a reload makes a new one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apply/actuator.h"
#include "bandwidth/regulator.h"
#include "base/clock.h"
#include "client/decision_client.h"
#include "config/config.h"
#include "daemon/loop.h"
#include "daemon/machine.h"
#include "experience/outbox.h"
#include "gate/gate.h"
#include "report/audit.h"
#include "report/record.h"
#include "sense/sensors.h"

namespace osml {

// Of the files that a configuration names, what is used as long as a session lives.
struct SessionFiles {
  std::string token;  // empty: none
  std::optional<MbaCurve> curve;
};

struct SessionOptions {
  bool dry_run = false;
  bool fault_injection = false;
  std::optional<fs::path> record = {};  // see record.h
  TelemetrySockets* sockets = nullptr;  // outlives the session; where it is null nothing is listened to
  // For the way back to a configuration that was in force already: what was read then, in place of its files, which may
  // have gone. That is no reason to let the node go. A socket that cannot be opened is none either: its latency is
  // missing, with the reason.
  std::optional<SessionFiles> known = {};
};

class Session {
 public:
  // Opens the machine (lock, healing) and the sockets for latencies, and reads the token. `clock` is kept where the
  // time scale stays.
  static Result<std::unique_ptr<Session>> open(const Config& config, const SessionOptions& options,
                                               std::optional<NodeClock> clock);

  // Whether the files that open() would read can be used, found out while another session holds the machine.
  static Status check_files(const Config& config, bool dry_run = false);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;
  ~Session() = default;

  // Read the sensors once, so that the first turn has rates.
  void prime() { loop_.prime(clock_.now_s()); }
  void turn();
  // The software regulator, a few times a period; a turn that waits for the server or for metrics does it too.
  void poll() { regulator_.poll(clock_.now_s()); }
  // Wall time between two polls; 0 where there is nothing to regulate.
  [[nodiscard]] double poll_interval_s() const;
  // What wakes the session between two turns: experiences on their way to the server, and questions about containers
  // that the runtime starts. carry() has something to do when one of them is readable.
  [[nodiscard]] std::vector<int> waking_fds() const;
  void carry();
  [[nodiscard]] const ExperienceOutbox* outbox() const { return outbox_.get(); }
  // For the session that follows after a reload; this one asks nobody any more.
  std::unique_ptr<ExperienceOutbox> give_up_outbox() { return std::move(outbox_); }
  // Goes on where the session before a reload ended; `wanted`: same node, same server.
  void follow(std::unique_ptr<ExperienceOutbox> before, bool wanted);
  // What was set is put back, and the plugin hears of it. `why` goes into the audit log.
  Status restore(const std::string& why);
  // Obeys on_exit.
  Status close();

  // With the services that pods ask for.
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const NodeClock& clock() const { return clock_; }
  Actuator& actuator() { return actuator_; }
  [[nodiscard]] SessionFiles files() const { return {token_, actuator_.curve()}; }
  Loop& loop() { return loop_; }

 private:
  Session(Actuator actuator, std::string token, const SessionOptions& options, NodeClock clock);
  DecisionSource& observed();
  DecisionSource& source();
  std::unique_ptr<ExperienceOutbox> make_outbox(const SessionOptions& options);
  [[nodiscard]] bool regulates() const;
  // Polls, and gives the service manager a sign of life, while a turn waits for an answer; seconds until the next one.
  double attend();
  void let_jobs_go();
  void open_gate();
  void answer_containers();
  void tell_plugin();

  Actuator actuator_;
  const Config& config_;  // the actuator's, whose services come and go with pods
  ActuatorMachine machine_;
  std::string token_;
  DecisionClient client_;
  std::optional<Recorder> recorder_;
  std::unique_ptr<ExperienceOutbox> outbox_;  // none where no experiences are sent
  std::unique_ptr<Gate> gate_;                // none in a dry run
  Sensors sensors_;
  Audit audit_;
  Regulator regulator_;
  NodeClock clock_;
  Loop loop_;
  bool dry_run_;
};

// Whether both configurations set the same files in the same way, so that what was applied under one may stand under
// the other.
bool same_machine(const Config& a, const Config& b);
// Whether both are about the same tasks. The next session restores those that it does not know.
bool same_services(const Config& a, const Config& b);

}  // namespace osml
