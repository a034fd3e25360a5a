// Lists LatencyTargets, read only: all of them, or those of the namespaces that may ask, from the cache of the API
// server. Nothing here waits but wait(), and nothing that goes wrong touches the control loop: what is known stays.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"
#include "kubernetes/api_server.h"
#include "kubernetes/lane.h"
#include "locate/target_book.h"

namespace osml {

class TargetLister {
 public:
  // `now_s`: node time, as everywhere here. The first list comes within one period, and within ten seconds. Each node
  // has its own moment in them: nodes that start together do not ask together.
  TargetLister(const Config& config, double now_s);

  // Readable whenever carry() has something to do.
  [[nodiscard]] int fd() const { return server_.fd(); }
  // Once a turn: asks where a list is due.
  void see(double now_s);
  // News of the namespaces whose lists came whole.
  std::vector<TargetNews> carry(double now_s);
  [[nodiscard]] bool under_way() const { return server_.busy(); }
  // Asks at once, and waits at most kubernetes.timeout_s for each answer: for those who look once.
  std::vector<TargetNews> wait(double now_s);

  struct Counts {
    bool up = false;  // all of the last round
    std::uint64_t good = 0, failed = 0;
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  void begin(double now_s);
  void send(double now_s);
  void follow(double now_s);  // with the next namespace, or the end of the round
  std::vector<TargetNews> settle(const ApiAnswer& answer, double now_s);
  std::vector<TargetNews> take(const HttpAnswer& answer, double now_s);
  std::vector<TargetNews> fail(const ApiAnswer& answer, double now_s);
  void complain(const ApiAnswer& answer);
  [[nodiscard]] const std::string& name_space() const { return namespaces_.at((first_ + at_) % namespaces_.size()); }

  DiscoverConfig discover_;
  double time_scale_;
  std::vector<std::string> namespaces_;  // one without a name: all
  ApiServer server_;
  Lane lane_;
  double due_s_;
  std::size_t first_ = 0;                          // the namespace with which a round begins
  std::size_t at_ = 0;                             // how many had their turn in this round
  TargetPage gathered_;                            // its pages so far
  unsigned pages_ = 0;                             // how many these are
  bool whole_ = true;                              // nothing of this round failed
  bool some_came_ = false;                         // the list of one namespace at least
  unsigned not_there_ = 0;                         // times in a row that the API server did not know the resource
  std::map<std::string, std::string> complaints_;  // by namespace, as told last
  std::set<std::string> told_;                     // in this round
  bool complained_ = false;                        // since a round last came whole
  Counts counts_;
};

}  // namespace osml
