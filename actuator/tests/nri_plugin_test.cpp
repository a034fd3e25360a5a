// The plugin's side of NRI, held against what the library of the container runtimes said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "nri/api.pb.h"
#include "nri/plugin.h"

namespace osml::nri {
namespace {

using Stage = ContainerQuestion::Stage;
using testing::ElementsAre;
using testing::HasSubstr;

// Containers named app are of the service web; the others are of none.
class FakeAgent : public ContainerAnswers {
 public:
  std::optional<ContainerAnswer> ask(ContainerQuestion question) override {
    asked.push_back(question);
    if (away) return std::nullopt;
    return question.container == managed ? ContainerAnswer{1, "web", cpus} : ContainerAnswer{1, "", ""};
  }
  std::vector<ContainerQuestion> asked;
  std::string cpus = "2-3";
  bool away = false;
  std::string managed = "app";
};

std::string id_of(char digit) { return std::string(64, digit); }

struct Line {
  std::string who;
  std::string bytes;
};

std::vector<Line> recorded() {
  std::ifstream file(fs::path(__FILE__).parent_path() / "golden/nri_traffic.txt");
  std::vector<Line> lines;
  std::string text;
  while (std::getline(file, text)) {
    if (text.starts_with('#')) continue;
    Line line;
    std::string hex;
    std::istringstream(text) >> line.who >> hex;
    for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
      line.bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
    }
    lines.push_back(line);
  }
  return lines;
}

TEST(NriPlugin, SaysToARuntimeWhatWasRecorded) {
  FakeAgent agent;
  KnownContainers containers;
  Plugin plugin({}, "0-1", agent, containers);
  std::string said = plugin.registration();
  std::string expected;
  for (const Line& line : recorded()) {
    if (line.who == "plugin") {
      expected += line.bytes;
      continue;
    }
    const auto back = plugin.hear(line.bytes);
    ASSERT_TRUE(back) << back.error().message;
    said += *back;
    while (plugin.behind()) said += plugin.catch_up().bytes;
    constexpr char second_start = 0x0b;  // the stream of that request
    if (line.bytes[15] == second_start) said += plugin.follow({{"web", "1-3"}});
  }
  EXPECT_EQ(said + plugin.follow({}), expected);
  EXPECT_TRUE(plugin.registered());
  EXPECT_EQ(plugin.runtime(), "test-runtime 1.2.3");
  EXPECT_EQ(plugin.request_timeout_s(), 2);
  std::vector<Stage> stages;
  for (const ContainerQuestion& question : agent.asked) stages.push_back(question.stage);
  // One that was there; one that is made and starts; one of no service, which is not asked about again; an update.
  EXPECT_THAT(stages, ElementsAre(Stage::Look, Stage::Look, Stage::Start, Stage::Look, Stage::Look));
  EXPECT_EQ(agent.asked.at(1), (ContainerQuestion{0, Stage::Look, "0b1e-2", "app", std::string(64, '2'), ""}));
}

// The conversation in small: what a test needs of the runtime.
class NriTalk : public testing::Test {
 protected:
  std::string hear(const std::string& method, const google::protobuf::MessageLite& message) {
    wire::Request request;
    request.set_service("nri.pkg.api.v1alpha1.Plugin");
    request.set_method(method);
    request.set_payload(message.SerializeAsString());
    return answer(request.SerializeAsString());
  }
  std::string answer(const std::string& payload) {
    const auto back = plugin_.hear(framed({plugin_connection, 1, Message::Type::Request, payload}));
    EXPECT_TRUE(back);
    Unframer unframer;
    EXPECT_TRUE(unframer.feed(back.ok() ? *back : ""));
    const auto message = unframer.next();
    wire::Response response;
    EXPECT_TRUE(message && response.ParseFromString(message->payload));
    code_ = response.status().code();
    behind_ = updates_in(unframer);
    return response.payload();
  }
  static std::map<std::string, std::string> updates_in(const std::string& bytes) {
    Unframer unframer;
    EXPECT_TRUE(unframer.feed(bytes));
    return updates_in(unframer);
  }
  static std::map<std::string, std::string> updates_in(Unframer& unframer) {
    std::map<std::string, std::string> found;
    while (const auto message = unframer.next()) {
      wire::Request request;
      wire::UpdateContainersRequest updates;
      EXPECT_TRUE(request.ParseFromString(message->payload) && updates.ParseFromString(request.payload()));
      for (const auto& one : updates.update()) {
        found[one.container_id()] = one.linux().resources().cpu().cpus();
        EXPECT_TRUE(one.ignore_failure());
      }
    }
    return found;
  }
  std::string create(const std::string& id, const std::string& cpus = "") {
    wire::CreateContainerRequest request;
    request.mutable_pod()->set_uid("1a");
    fill(*request.mutable_container(), id, cpus);
    wire::CreateContainerResponse response;
    EXPECT_TRUE(response.ParseFromString(hear("CreateContainer", request)));
    return response.adjust().linux().resources().cpu().cpus();
  }
  void state_change(wire::Event event, const std::string& id) {
    wire::StateChangeEvent change;
    change.set_event(event);
    change.mutable_pod()->set_uid("1a");
    fill(*change.mutable_container(), id, "");
    EXPECT_EQ(hear("StateChange", change), "");
  }
  static void fill(wire::Container& container, const std::string& id, const std::string& cpus) {
    container.set_id(id);
    container.set_name("app");
    container.set_pod_sandbox_id("sandbox");
    if (!cpus.empty()) container.mutable_linux()->mutable_resources()->mutable_cpu()->set_cpus(cpus);
  }

  FakeAgent agent_;
  KnownContainers containers_;
  Plugin plugin_{{}, "0-7", agent_, containers_};
  int code_ = 0;
  std::map<std::string, std::string> behind_;  // updates that came behind the last answer
};

TEST_F(NriTalk, WithoutAnAnswerAContainerIsLeftAsItIsAndAskedAboutLater) {
  agent_.away = true;
  EXPECT_EQ(create(id_of('a')), "");
  EXPECT_TRUE(plugin_.behind());
  EXPECT_FALSE(plugin_.catch_up().answered);
  agent_.away = false;
  state_change(wire::START_CONTAINER, id_of('a'));
  EXPECT_EQ(agent_.asked.back().stage, Stage::Start) << "its program does not run yet";
  EXPECT_FALSE(plugin_.behind());
  agent_.away = true;
  EXPECT_EQ(create(id_of('b')), "");
  agent_.away = false;
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes), (std::map<std::string, std::string>{{id_of('b'), "2-3"}}));
}

TEST_F(NriTalk, WhatTheKubeletChoseWhileTheAgentWasAwayIsWhatItGetsBack) {
  using Updates = std::map<std::string, std::string>;
  agent_.away = true;
  for (const char digit : {'a', 'b', 'c', 'd'}) EXPECT_EQ(create(id_of(digit), "4-5"), "");
  state_change(wire::START_CONTAINER, id_of('a'));
  wire::UpdateContainerRequest request;
  request.mutable_pod()->set_uid("1a");
  fill(*request.mutable_container(), id_of('d'), "4-5");
  request.mutable_linux_resources()->mutable_cpu()->set_cpus("6");
  hear("UpdateContainer", request);
  agent_.away = false;
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes), (Updates{{id_of('a'), "2-3"}}));
  state_change(wire::START_CONTAINER, id_of('b'));
  EXPECT_EQ(behind_, (Updates{{id_of('b'), "2-3"}})) << "the answer itself has no place for CPUs";
  state_change(wire::START_CONTAINER, id_of('b'));
  EXPECT_EQ(behind_, Updates{}) << "once";
  request.mutable_container()->set_id(id_of('c'));
  request.clear_linux_resources();
  hear("UpdateContainer", request);
  while (plugin_.behind()) plugin_.catch_up();
  EXPECT_EQ(updates_in(plugin_.follow({})),
            (Updates{{id_of('a'), "4-5"}, {id_of('b'), "4-5"}, {id_of('c'), "4-5"}, {id_of('d'), "6"}}));
}

TEST_F(NriTalk, WithoutAnAnswerAnUpdateKeepsWhatTheContainerHas) {
  ASSERT_EQ(create(id_of('a')), "2-3");
  agent_.away = true;
  wire::UpdateContainerRequest request;
  request.mutable_pod()->set_uid("1a");
  fill(*request.mutable_container(), id_of('a'), "0-7");
  wire::UpdateContainerResponse response;
  ASSERT_TRUE(response.ParseFromString(hear("UpdateContainer", request)));
  ASSERT_EQ(response.update_size(), 1);
  EXPECT_EQ(response.update(0).linux().resources().cpu().cpus(), "2-3");
}

TEST_F(NriTalk, ChangesAreToldOnceAndGoBackToWhatTheRuntimeHad) {
  ASSERT_EQ(create(id_of('a')), "2-3");
  ASSERT_EQ(create(id_of('b'), "4-5"), "2-3");
  EXPECT_EQ(plugin_.follow({{"web", "2-3"}, {"db", "4"}}), "") << "that is what they have";
  EXPECT_EQ(updates_in(plugin_.follow({{"web", "1-3"}})),
            (std::map<std::string, std::string>{{id_of('a'), "1-3"}, {id_of('b'), "1-3"}}));
  EXPECT_EQ(plugin_.follow({{"web", "1-3"}}), "");
  EXPECT_EQ(updates_in(plugin_.follow({})),
            (std::map<std::string, std::string>{{id_of('a'), "0-7"}, {id_of('b'), "4-5"}}));
  EXPECT_EQ(plugin_.follow({}), "");
  state_change(wire::REMOVE_CONTAINER, id_of('a'));
  EXPECT_EQ(updates_in(plugin_.follow({{"web", "6"}})), (std::map<std::string, std::string>{{id_of('b'), "6"}}));
}

TEST_F(NriTalk, ARestartedPluginDoesNotTakeWhatOneBeforeItSetForTheRuntimesOwn) {
  wire::SynchronizeRequest request;
  auto& pod = *request.add_pods();
  pod.set_id("sandbox");
  pod.set_uid("1a");
  fill(*request.add_containers(), id_of('a'), "2-3");
  fill(*request.add_containers(), id_of('c'), "");
  request.mutable_containers(1)->set_state(wire::CONTAINER_STOPPED);
  hear("Synchronize", request);
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes).size(), 1) << "who has stopped is not asked about";
  EXPECT_EQ(updates_in(plugin_.follow({})), (std::map<std::string, std::string>{{id_of('a'), "0-7"}}));
}

TEST_F(NriTalk, ARuntimeThatStartsAnewGetsBackWhatItHadBefore) {
  ASSERT_EQ(create(id_of('a'), "4-5"), "2-3");
  ASSERT_EQ(create(id_of('b'), "6"), "2-3");
  plugin_ = Plugin({}, "0-7", agent_, containers_);
  wire::SynchronizeRequest request;
  request.add_pods()->set_id("sandbox");
  request.mutable_pods(0)->set_uid("1a");
  fill(*request.add_containers(), id_of('a'), "2-3");
  hear("Synchronize", request);
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes), (std::map<std::string, std::string>{{id_of('a'), "2-3"}}));
  EXPECT_FALSE(containers_.contains(id_of('b'))) << "it went with the runtime";
  EXPECT_EQ(updates_in(plugin_.follow({})), (std::map<std::string, std::string>{{id_of('a'), "4-5"}}));
}

TEST_F(NriTalk, AContainerThatIsOfNoServiceAnyMoreGetsBackWhatItHad) {
  ASSERT_EQ(create(id_of('a'), "4-5"), "2-3");
  agent_.managed = "another";
  wire::UpdateContainerRequest request;
  request.mutable_pod()->set_uid("1a");
  fill(*request.mutable_container(), id_of('a'), "2-3");
  hear("UpdateContainer", request);
  ASSERT_TRUE(plugin_.behind());
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes), (std::map<std::string, std::string>{{id_of('a'), "4-5"}}));
  EXPECT_FALSE(plugin_.behind());
  EXPECT_EQ(plugin_.follow({{"web", "6"}}), "");
}

TEST_F(NriTalk, AListInPartsIsPutTogetherInAnyOrder) {
  wire::SynchronizeRequest first;
  fill(*first.add_containers(), id_of('a'), "");
  first.set_more(true);
  wire::SynchronizeResponse response;
  ASSERT_TRUE(response.ParseFromString(hear("Synchronize", first)));
  EXPECT_TRUE(response.more());
  wire::SynchronizeRequest second;
  second.add_pods()->set_id("sandbox");
  second.mutable_pods(0)->set_uid("1a");
  ASSERT_TRUE(response.ParseFromString(hear("Synchronize", second)));
  EXPECT_FALSE(response.more());
  EXPECT_EQ(updates_in(plugin_.catch_up().bytes).size(), 1);
}

TEST_F(NriTalk, ContainersAreAskedAboutOneAtATimeAndOddOnesNever) {
  wire::SynchronizeRequest request;
  request.add_pods()->set_id("sandbox");
  request.mutable_pods(0)->set_uid("1a");
  for (int i = 0; i < 10; ++i) fill(*request.add_containers(), id_of(static_cast<char>('0' + i)), "");
  fill(*request.add_containers(), "odd", "");
  hear("Synchronize", request);
  EXPECT_THAT(agent_.asked, testing::IsEmpty()) << "the runtime waits for this answer";
  int calls = 0;
  for (; plugin_.behind(); ++calls) EXPECT_EQ(updates_in(plugin_.catch_up().bytes).size(), 1);
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(create("odd"), "");
  EXPECT_EQ(agent_.asked.size(), 10);
  EXPECT_FALSE(plugin_.behind());
}

TEST_F(NriTalk, WhatTheKubeletWantsLaterIsWhatItGetsBack) {
  ASSERT_EQ(create(id_of('a'), "4-5"), "2-3");
  wire::UpdateContainerRequest request;
  request.mutable_pod()->set_uid("1a");
  fill(*request.mutable_container(), id_of('a'), "2-3");
  request.mutable_linux_resources()->mutable_cpu()->set_cpus("6-7");
  hear("UpdateContainer", request);
  EXPECT_EQ(updates_in(plugin_.follow({})), (std::map<std::string, std::string>{{id_of('a'), "6-7"}}));
}

TEST_F(NriTalk, WhatCannotBeReadChangesNothingOfTheContainer) {
  wire::Request request;
  request.set_service("nri.pkg.api.v1alpha1.Plugin");
  for (const char* method : {"Configure", "Synchronize", "CreateContainer", "UpdateContainer", "StateChange"}) {
    request.set_method(method);
    request.set_payload("\xff\xff\xff");
    EXPECT_EQ(answer(request.SerializeAsString()), "");
    EXPECT_EQ(code_, 0) << "an error stops the runtime from making the container";
  }
  request.set_method("RunPodSandbox");
  EXPECT_EQ(answer(request.SerializeAsString()), "");
  EXPECT_EQ(code_, 12);
  EXPECT_THAT(agent_.asked, testing::IsEmpty());
}

TEST_F(NriTalk, ARuntimeMayRefuseThePluginOrGoDown) {
  (void)plugin_.registration();
  wire::Response refused;
  refused.mutable_status()->set_code(2);
  refused.mutable_status()->set_message("invalid plugin\x1b[31m");
  const auto heard =
      plugin_.hear(framed({runtime_connection, 1, Message::Type::Response, refused.SerializeAsString()}));
  ASSERT_FALSE(heard);
  EXPECT_THAT(heard.error().message, HasSubstr("the runtime does not register the plugin 'osml': invalid plugin?[31m"));
  EXPECT_FALSE(plugin_.dismissed());
  hear("Shutdown", wire::Empty());
  EXPECT_TRUE(plugin_.dismissed());
}

}  // namespace
}  // namespace osml::nri
