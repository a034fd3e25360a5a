#include "nri/plugin.h"

#include <spdlog/spdlog.h>

#include "base/printable.h"
#include "nri/api.pb.h"

namespace osml::nri {

namespace {

constexpr const char* runtime_service = "nri.pkg.api.v1alpha1.Runtime";
constexpr const char* plugin_service = "nri.pkg.api.v1alpha1.Plugin";
constexpr int unimplemented = 12;  // codes of gRPC
constexpr std::size_t longest_shown = 200;

// The runtime tells of those alone that the plugin wants to hear.
int wanted_events() {
  int mask = 0;
  for (const auto event :
       {wire::CREATE_CONTAINER, wire::START_CONTAINER, wire::UPDATE_CONTAINER, wire::REMOVE_CONTAINER}) {
    mask |= 1 << (static_cast<int>(event) - 1);
  }
  return mask;
}

ContainerQuestion question_of(const std::string& pod_uid, const wire::Container& container,
                              ContainerQuestion::Stage stage) {
  return {0, stage, pod_uid, container.name(), container.id(), std::nullopt};
}

void add_update(wire::ContainerUpdate& update, const std::string& id, const std::string& cpus) {
  update.set_container_id(id);
  update.mutable_linux()->mutable_resources()->mutable_cpu()->set_cpus(cpus);
  update.set_ignore_failure(true);  // it may have ended meanwhile, and that is no reason to fail for others
}

}  // namespace

Plugin::Plugin(PluginName name, std::string all_cpus, ContainerAnswers& agent, KnownContainers& containers)
    : name_(std::move(name)), all_cpus_(std::move(all_cpus)), agent_(&agent), containers_(&containers) {}

std::string Plugin::request(const char* method, std::string payload) {
  wire::Request request;
  request.set_service(runtime_service);
  request.set_method(method);
  request.set_payload(std::move(payload));
  const std::uint32_t stream = next_stream_;
  next_stream_ += 2;  // those of a client are odd
  ++unanswered_;
  return framed({runtime_connection, stream, Message::Type::Request, request.SerializeAsString()});
}

std::string Plugin::registration() {
  wire::RegisterPluginRequest registration;
  registration.set_plugin_name(name_.name);
  registration.set_plugin_idx(name_.index);
  registering_ = next_stream_;
  return request("RegisterPlugin", registration.SerializeAsString());
}

Result<std::string> Plugin::hear(std::string_view bytes) {
  if (Status fed = unframer_.feed(bytes); !fed) return fed.error();
  std::string back;
  while (const auto message = unframer_.next()) {
    if (message->connection == runtime_connection) {
      if (Status heard = hear_answer(*message); !heard) return heard.error();
      continue;
    }
    wire::Request request;
    if (message->type != Message::Type::Request || !request.ParseFromString(message->payload)) {
      return Error{ErrorKind::Input, "the runtime sends a request that is none of ttrpc", 0};
    }
    const Reply reply = request.service() == plugin_service ? answer(request.method(), request.payload())
                                                            : Reply{unimplemented, "no such service"};
    wire::Response response;
    if (reply.code == 0) {
      response.set_payload(reply.text);
    } else {
      response.mutable_status()->set_code(reply.code);
      response.mutable_status()->set_message(reply.text);
    }
    back += framed({plugin_connection, message->stream, Message::Type::Response, response.SerializeAsString()});
    back += reply.behind;
  }
  return back;
}

Status Plugin::hear_answer(const Message& message) {
  wire::Response response;
  if (message.type != Message::Type::Response || !response.ParseFromString(message.payload)) {
    return Error{ErrorKind::Input, "the runtime sends an answer that is none of ttrpc", 0};
  }
  if (unanswered_ > 0) --unanswered_;
  const std::string why = printable(response.status().message(), longest_shown);
  if (message.stream == registering_) {
    if (response.status().code() != 0) {
      return Error{ErrorKind::Io, "the runtime does not register the plugin '" + name_.name + "': " + why, 0};
    }
    registered_ = true;
    return done();
  }
  wire::UpdateContainersResponse updated;
  if (response.status().code() != 0) {
    spdlog::warn("the runtime did not take the CPUs of containers: {}", why);
  } else if (updated.ParseFromString(response.payload()) && updated.failed_size() > 0) {
    spdlog::warn("the runtime did not take the CPUs of {} containers, such as {}", updated.failed_size(),
                 printable(updated.failed(0).container_id(), longest_shown));
  }
  return done();
}

Plugin::Reply Plugin::answer(const std::string& method, const std::string& payload) {
  if (method == "Configure") return configure(payload);
  if (method == "Synchronize") return synchronize(payload);
  if (method == "CreateContainer") return create(payload);
  if (method == "UpdateContainer") return update(payload);
  if (method == "StateChange") return state_change(payload);
  if (method == "Shutdown") {
    dismissed_ = true;
    return {};
  }
  return {unimplemented, "no such method"};
}

// An error would stop the runtime from making the container; an empty answer changes nothing of it.
Plugin::Reply Plugin::unread(const char* message) {
  spdlog::warn("the runtime sends a {} that cannot be read; the plugin changes nothing", message);
  return {};
}

Plugin::Reply Plugin::configure(const std::string& payload) {
  wire::ConfigureRequest request;
  if (!request.ParseFromString(payload)) return unread("ConfigureRequest");
  constexpr double ms_per_s = 1000;
  timeout_s_ = static_cast<double>(std::max<std::int64_t>(0, request.request_timeout())) / ms_per_s;
  runtime_ = printable(request.runtime_name() + " " + request.runtime_version(), longest_shown);
  wire::ConfigureResponse response;
  response.set_events(wanted_events());
  return {0, response.SerializeAsString()};
}

// The answer does not wait for the agent: there may be many containers, and the runtime starts none meanwhile. Pods and
// containers come in parts of their own, in no order.
Plugin::Reply Plugin::synchronize(const std::string& payload) {
  wire::SynchronizeRequest request;
  if (!request.ParseFromString(payload)) return unread("SynchronizeRequest");
  for (const wire::PodSandbox& pod : request.pods()) pod_uids_[pod.id()] = pod.uid();
  for (const wire::Container& container : request.containers()) {
    if (container.state() == wire::CONTAINER_STOPPED) continue;
    listed_[container.id()] = {container.pod_sandbox_id(), container.name()};
  }
  if (!request.more()) {
    std::erase_if(*containers_, [this](const auto& known) { return !listed_.contains(known.first); });
    for (const auto& [id, listed] : listed_) {
      const auto pod = pod_uids_.find(listed.sandbox);
      if (pod == pod_uids_.end()) continue;
      const ContainerQuestion question{0, ContainerQuestion::Stage::Look, pod->second, listed.name, id, std::nullopt};
      if (is_well_formed(question)) unasked_[id] = question;
    }
    pod_uids_.clear();
    listed_.clear();
  }
  wire::SynchronizeResponse response;
  response.set_more(request.more());
  return {0, response.SerializeAsString()};
}

std::string Plugin::cpus_for(ContainerQuestion question) {
  if (!is_well_formed(question)) return {};
  // The kubelet says it once, maybe while the agent was away.
  const auto missed = unasked_.find(question.id);
  if (missed != unasked_.end() && !question.kubelet_cpus) question.kubelet_cpus = missed->second.kubelet_cpus;
  const auto answer = agent_->ask(question);
  if (!answer) {
    const auto known = containers_->find(question.id);
    if (known != containers_->end()) return known->second.given;
    unasked_[question.id] = question;
    unasked_[question.id].stage = ContainerQuestion::Stage::Look;
    return {};
  }
  unasked_.erase(question.id);
  if (answer->service.empty()) {
    // It was of one: catch_up() gives it back what it had.
    if (containers_->contains(question.id)) {
      unasked_[question.id] = question;
      unasked_[question.id].stage = ContainerQuestion::Stage::Look;
    }
    return {};
  }
  KnownContainer& known = (*containers_)[question.id];
  if (known.service.empty()) known.before = question.kubelet_cpus.value_or("");
  known.service = answer->service;
  if (!answer->cpus.empty()) known.given = answer->cpus;
  return answer->cpus;
}

Plugin::Reply Plugin::create(const std::string& payload) {
  wire::CreateContainerRequest request;
  if (!request.ParseFromString(payload)) return unread("CreateContainerRequest");
  auto question = question_of(request.pod().uid(), request.container(), ContainerQuestion::Stage::Look);
  question.kubelet_cpus = request.container().linux().resources().cpu().cpus();
  const std::string cpus = cpus_for(question);
  wire::CreateContainerResponse response;
  if (!cpus.empty()) {
    response.mutable_adjust()->mutable_linux()->mutable_resources()->mutable_cpu()->set_cpus(cpus);
  }
  return {0, response.SerializeAsString()};
}

// The runtime is about to write what it knows of a container, and what the kubelet wants by now.
Plugin::Reply Plugin::update(const std::string& payload) {
  wire::UpdateContainerRequest request;
  if (!request.ParseFromString(payload)) return unread("UpdateContainerRequest");
  const auto question = question_of(request.pod().uid(), request.container(), ContainerQuestion::Stage::Look);
  const std::string cpus = cpus_for(question);
  const std::string& wanted = request.linux_resources().cpu().cpus();
  const auto known = containers_->find(question.id);
  if (known != containers_->end() && !wanted.empty()) known->second.before = wanted;
  const auto missed = unasked_.find(question.id);
  if (missed != unasked_.end() && !wanted.empty()) missed->second.kubelet_cpus = wanted;
  wire::UpdateContainerResponse response;
  if (!cpus.empty()) add_update(*response.add_update(), question.id, cpus);
  return {0, response.SerializeAsString()};
}

Plugin::Reply Plugin::state_change(const std::string& payload) {
  wire::StateChangeEvent event;
  if (!event.ParseFromString(payload)) return unread("StateChangeEvent");
  const std::string& id = event.container().id();
  if (event.event() == wire::REMOVE_CONTAINER) {
    containers_->erase(id);
    unasked_.erase(id);
  } else if (event.event() == wire::START_CONTAINER && (containers_->contains(id) || unasked_.contains(id))) {
    // All were asked about when they were made; the others are of no service.
    return {0, "", start(question_of(event.pod().uid(), event.container(), ContainerQuestion::Stage::Start))};
  }
  return {};
}

// The answer to this event has no place for CPUs: what the runtime does not know yet goes in an update behind it.
std::string Plugin::start(const ContainerQuestion& question) {
  const auto known = containers_->find(question.id);
  const std::string given = known == containers_->end() ? std::string() : known->second.given;
  const std::string cpus = cpus_for(question);
  return cpus.empty() || cpus == given ? std::string() : update_of(question.id, cpus);
}

std::string Plugin::update_of(const std::string& id, const std::string& cpus) {
  wire::UpdateContainersRequest updates;
  add_update(*updates.add_update(), id, cpus);
  return request("UpdateContainers", updates.SerializeAsString());
}

Plugin::CaughtUp Plugin::catch_up() {
  if (unasked_.empty()) return {true, ""};
  const ContainerQuestion question = unasked_.begin()->second;
  const auto answer = agent_->ask(question);
  if (!answer) return {};
  unasked_.erase(question.id);
  if (answer->service.empty()) return {true, take_back(question.id)};
  // What the runtime has for it may be what a plugin before this one told, so nobody knows what was before unless this
  // one was there.
  KnownContainer& known = (*containers_)[question.id];
  if (known.service.empty()) known.before = question.kubelet_cpus.value_or("");
  known.service = answer->service;
  if (answer->cpus.empty()) return {true, ""};
  known.given = answer->cpus;
  return {true, update_of(question.id, answer->cpus)};
}

std::string Plugin::take_back(const std::string& id) {
  const auto known = containers_->find(id);
  if (known == containers_->end()) return {};
  const KnownContainer was = known->second;
  containers_->erase(known);
  if (was.given.empty()) return {};
  return update_of(id, was.before.empty() ? all_cpus_ : was.before);
}

std::string Plugin::follow(const CpusInForce& cpus) {
  wire::UpdateContainersRequest updates;
  for (auto& [id, known] : *containers_) {
    const auto found = cpus.find(known.service);
    const bool back = found == cpus.end() && !known.given.empty();
    std::string now = found != cpus.end() ? found->second : known.before.empty() ? all_cpus_ : known.before;
    if (now == known.given || (found == cpus.end() && !back)) continue;
    add_update(*updates.add_update(), id, now);
    known.given = back ? std::string() : now;
  }
  return updates.update_size() == 0 ? std::string() : request("UpdateContainers", updates.SerializeAsString());
}

}  // namespace osml::nri
