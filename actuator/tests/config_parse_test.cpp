// What a good configuration becomes.
#include <gtest/gtest.h>

#include "config/config.h"

namespace osml {
namespace {

constexpr const char* smallest = R"(
node: demo
server: {url: "http://127.0.0.1:8080/"}
services:
  - name: moses
    class: lc
    target_ms: 10
    match: {cgroup: lc/moses}
    latency: {file: moses.jsonl}
)";

TEST(ConfigParse, EverythingButNodeServerAndServicesHasADefault) {
  const auto config = parse_config(smallest, "/etc/osml/agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->node, "demo");
  EXPECT_EQ(config->server.url, "http://127.0.0.1:8080");
  EXPECT_EQ(config->server.timeout_s, 0.5);
  EXPECT_TRUE(config->server.experiences);
  EXPECT_FALSE(config->policy);
  EXPECT_EQ(config->interval_s, 1.0);
  EXPECT_EQ(config->hold_s, 10.0);
  EXPECT_EQ(config->fallback, Fallback::Hold);
  EXPECT_EQ(config->on_exit, OnExit::Restore);
  EXPECT_EQ(config->state_dir, "/var/lib/osml");
  EXPECT_EQ(config->roots.resctrl, "/sys/fs/resctrl");
  EXPECT_FALSE(config->cpu.quantum);
  EXPECT_FALSE(config->cpu.place);
  ASSERT_EQ(config->services.size(), 1U);
  EXPECT_EQ(config->services[0].spec.percentile, "p99");
  EXPECT_EQ(config->services[0].spec.min_ways, 1U);
}

TEST(ConfigParse, OneCgroupHasOnePath) {
  for (const char* path : {"lc/moses", "lc/moses/", "lc//moses", "./lc/./moses/", "lc/moses/."}) {
    std::string text = smallest;
    text.replace(text.find("lc/moses"), std::string("lc/moses").size(), path);
    const auto config = parse_config(text, "/etc/osml/agent.yaml");
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->services[0].match.cgroup, "lc/moses") << path;
  }
}

TEST(ConfigParse, RelativePathsStartAtTheFile) {
  const auto config = parse_config(smallest, "/etc/osml/agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->services[0].latency->file, "/etc/osml/moses.jsonl");
}

TEST(ConfigParse, ReadsEveryKey) {
  const auto config = parse_config(R"(
node: n1
server: {url: "https://decide.example", timeout_s: 0.25, token_file: /etc/osml/token, experiences: off}
policy: arq
interval_s: 2
time_scale: 10
hold_s: 30
fallback: even
on_exit: leave
state_dir: /run/osml
roots: {resctrl: /a, cgroup: /b, proc: /c, sysfs: /d}
cpu: {backend: cgroup1, quantum: 0.1, cpus: "0-3,8", cache_domains: place, memory_nodes: follow}
platform: {id: e5-2697v4, bandwidth_gbps: 76.8, memory_gib: 256, frequency_ghz: 2.3}
log: {level: debug, format: json}
services:
  - name: search
    class: lc
    target_ms: 7.5
    percentile: p95
    ideal_ms: 2
    limits: {min_cores: 2, max_cores: 6, min_ways: 3, max_ways: 9}
    match: {pids: [11, 12]}
    latency:
      prometheus: {url: "http://127.0.0.1:9/metrics", metric: rt, labels: {path: /q}, unit: milliseconds}
      max_age_s: 5
  - name: stream
    class: be
    ipc_solo: 0.9
    work_rate_solo: 120
    match: {pid_file: /run/stream.pid}
    counters: {file: /run/stream.jsonl}
)",
                                   "agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->server.experiences);
  EXPECT_EQ(config->server.token_file, "/etc/osml/token");
  EXPECT_EQ(config->policy, "arq");
  EXPECT_EQ(config->time_scale, 10.0);
  EXPECT_EQ(config->fallback, Fallback::Even);
  EXPECT_EQ(config->on_exit, OnExit::Leave);
  EXPECT_EQ(config->roots.sysfs, "/d");
  EXPECT_EQ(config->cpu.quantum, 0.1);
  EXPECT_EQ(config->cpu.cpus, "0-3,8");
  EXPECT_TRUE(config->cpu.place);
  EXPECT_TRUE(config->cpu.follow_memory);
  EXPECT_EQ(config->platform.id, "e5-2697v4");
  EXPECT_EQ(config->log.format, "json");
  ASSERT_EQ(config->services.size(), 2U);
  const ServiceConfig& search = config->services[0];
  EXPECT_EQ(search.match.pids, (std::vector<int>{11, 12}));
  EXPECT_EQ(search.spec.max_ways, 9U);
  EXPECT_EQ(search.latency->prometheus->unit_ms, 1.0);
  EXPECT_EQ(search.latency->prometheus->labels.at("path"), "/q");
  EXPECT_EQ(search.latency->max_age_s, 5.0);
  EXPECT_EQ(config->services[1].match.pid_file, "/run/stream.pid");
  EXPECT_EQ(config->services[1].counters_file, "/run/stream.jsonl");
  EXPECT_EQ(config->services[1].spec.work_rate_solo, 120.0);
}

TEST(ConfigParse, TheShippedExampleIsGood) {
  const auto config = load_config(fs::path(__FILE__).parent_path().parent_path() / "agent.example.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_GE(config->services.size(), 2U);
}

TEST(ConfigParse, TakesWhatHelmMakesOfOnAndOff) {
  const auto config = parse_config(R"(
node: n
server: {url: "http://h", experiences: false}
levers: {frequency: true, idle: false, interrupts: true, interrupt_names: ["nvme*", "ahci[0000:00:17.0]"]}
services: [{name: s, class: lc, target_ms: 1, match: {cgroup: c}, latency: {file: /t}}]
)",
                                   "agent.yaml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->server.experiences);
  EXPECT_TRUE(config->levers.frequency);
  EXPECT_FALSE(config->levers.idle);
  EXPECT_TRUE(config->levers.interrupts);
  EXPECT_EQ(config->levers.interrupt_names, (std::vector<std::string>{"nvme*", "ahci[0000:00:17.0]"}));
}

}  // namespace
}  // namespace osml
