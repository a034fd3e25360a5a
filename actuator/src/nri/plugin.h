// The conversation of the NRI plugin with a container runtime: bytes in, bytes out, no socket and no clock.
// The runtime tells of each container of a pod, and the plugin asks the agent what the container is to have. The CPUs
// go into the runtime's own description of the container, so that an update by the kubelet does not undo them. Before
// the program starts, the agent sets all the rest.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gate/gate_client.h"
#include "nri/frames.h"

namespace osml::nri {

struct PluginName {
  std::string name = "osml";
  std::string index = "90";  // two digits; plugins are asked in this order
};

struct KnownContainer {  // of a service
  std::string service;
  std::string before;  // the CPUs that the kubelet wants for it; empty: none, or not known
  std::string given;   // those that it has by now
};
using KnownContainers = std::map<std::string, KnownContainer>;  // by id

class Plugin {
 public:
  // `all_cpus`: what a container gets back for whose service no CPUs are set any more. `agent` and `containers` outlive
  // this: what a runtime had before is known over its restart.
  Plugin(PluginName name, std::string all_cpus, ContainerAnswers& agent, KnownContainers& containers);

  // What is sent first.
  std::string registration();
  // What is sent back. Input: this is no NRI; the connection is of no more use.
  Result<std::string> hear(std::string_view bytes);
  // Asks about one of the containers that were there before the plugin, or were made while the agent was away.
  struct CaughtUp {
    bool answered = false;
    std::string bytes;  // what is sent; may be empty
  };
  CaughtUp catch_up();
  [[nodiscard]] bool behind() const { return !unasked_.empty(); }
  // CPUs that services have by now, all of them.
  std::string follow(const CpusInForce& cpus);

  // Something was sent that the runtime has not answered. It drops what it has not done yet when the connection ends.
  [[nodiscard]] bool awaits_answers() const { return unanswered_ > 0; }
  // How long the runtime waits for an answer; 0 while it has not said.
  [[nodiscard]] double request_timeout_s() const { return timeout_s_; }
  // "containerd 2.2.0"; empty before it has said so.
  [[nodiscard]] const std::string& runtime() const { return runtime_; }
  [[nodiscard]] bool registered() const { return registered_; }
  // The runtime goes down.
  [[nodiscard]] bool dismissed() const { return dismissed_; }

 private:
  struct Listed {
    std::string sandbox;
    std::string name;
  };
  // Payload of the answer; the error is a status of ttrpc.
  struct Reply {
    int code = 0;
    std::string text;         // the payload, or what the status says
    std::string behind = {};  // bytes that are sent after the answer
  };
  Reply answer(const std::string& method, const std::string& payload);
  static Reply unread(const char* message);
  Reply configure(const std::string& payload);
  Reply synchronize(const std::string& payload);
  Reply create(const std::string& payload);
  Reply update(const std::string& payload);
  Reply state_change(const std::string& payload);
  // Bytes that are sent after the answer.
  std::string start(const ContainerQuestion& question);
  Status hear_answer(const Message& message);
  // The CPUs for a container, empty where it has none of osml; remembered.
  std::string cpus_for(ContainerQuestion question);
  // For a container that is of no service any more: an update to what it had before; empty where it was given nothing.
  std::string take_back(const std::string& id);
  std::string update_of(const std::string& id, const std::string& cpus);
  std::string request(const char* method, std::string payload);

  PluginName name_;
  std::string all_cpus_;
  ContainerAnswers* agent_;
  Unframer unframer_;
  std::uint32_t next_stream_ = 1;
  std::uint32_t registering_ = 0;  // the stream of the registration
  unsigned unanswered_ = 0;        // requests
  bool registered_ = false;
  bool dismissed_ = false;
  double timeout_s_ = 0;
  std::string runtime_;
  // While the runtime tells what is there, in several parts: sandbox -> uid, and container -> where it is.
  std::map<std::string, std::string> pod_uids_;
  std::map<std::string, Listed> listed_;
  KnownContainers* containers_;
  std::map<std::string, ContainerQuestion> unasked_;  // by id
};

}  // namespace osml::nri
