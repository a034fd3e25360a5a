// One bad configuration per test: the message names file, line, column, field, value and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "config/config.h"
#include "config/nearest.h"

namespace osml {
namespace {

using testing::HasSubstr;

const std::string head = "node: demo\nserver: {url: \"http://127.0.0.1:8080\"}\n";
const std::string moses =
    "  - name: moses\n    class: lc\n    target_ms: 10\n    match: {cgroup: lc/moses}\n    latency: {file: /t.jsonl}\n";
const std::string services = "services:\n" + moses;

std::string message_of(const std::string& text) {
  const auto config = parse_config(text, "a.yaml");
  if (config) return "(accepted)";
  EXPECT_EQ(config.error().kind, ErrorKind::Input);
  return config.error().message;
}

std::string with_service(const std::string& lines) { return head + "services:\n  - name: moses\n" + lines; }

TEST(ConfigError, TypoInAKeyNamesPlaceAndNearestKey) {
  EXPECT_EQ(message_of(head + "intervall_s: 2\n" + services),
            "a.yaml:3:1: intervall_s: unknown key; did you mean 'interval_s'?");
}

TEST(ConfigError, UnknownKeyWithoutNeighbourListsTheKnownOnes) {
  EXPECT_THAT(message_of(head + "log: {colour: red}\n" + services), HasSubstr("unknown key; expected level or format"));
}

TEST(ConfigError, TargetOfZeroIsRefused) {
  const std::string text =
      with_service("    class: lc\n    target_ms: 0\n    match: {pids: [1]}\n    latency: {file: /t}\n");
  EXPECT_EQ(message_of(text), "a.yaml:6:16: services[0].target_ms: '0', expected milliseconds above 0");
}

TEST(ConfigError, LimitsNameTheirBounds) {
  const auto with_limits = [](const std::string& limits) {
    return message_of(with_service("    class: be\n    match: {pids: [1]}\n    limits: {" + limits + "}\n"));
  };
  EXPECT_EQ(with_limits("min_mba: 70000, max_mba: 16000000, max_weight: 10000"), "(accepted)");
  EXPECT_THAT(with_limits("max_mba: 16000001"),
              HasSubstr("limits.max_mba: '16000001', expected a whole number from 1 to 16000000"));
  EXPECT_THAT(with_limits("min_weight: 10001"),
              HasSubstr("limits.min_weight: '10001', expected a whole number from 1 to 10000"));
  EXPECT_THAT(with_limits("max_cores: 0"), HasSubstr("limits.max_cores: '0', expected a whole number from 1 to 65536"));
}

TEST(ConfigError, NamesOfInterruptsAreAListOfTexts) {
  for (const char* names : {"[]", "eth0", "[\"\"]", "[\"a/b\"]", "[[eth0]]"}) {
    EXPECT_THAT(message_of(head + "levers: {interrupts: on, interrupt_names: " + names + "}\n" + services),
                HasSubstr("levers.interrupt_names: "))
        << names;
  }
  EXPECT_THAT(message_of(head + "levers: {interrupts: yes}\n" + services),
              HasSubstr("levers.interrupts: 'yes', expected on or off"));
}

TEST(ConfigError, WaysToFindTheTasks) {
  const auto with_match = [](const std::string& match) {
    return message_of(head + "services:\n  - {name: s, class: be, match: {" + match + "}}\n");
  };
  EXPECT_EQ(with_match("systemd: redis.service"), "(accepted)");
  EXPECT_EQ(with_match("docker: redis"), "(accepted)");
  EXPECT_EQ(with_match("pod: {namespace: shop, name: web-0, container: app}"), "(accepted)");
  EXPECT_EQ(with_match("pod: {namespace: shop, labels: {app.kubernetes.io/name: web}}"), "(accepted)");
  EXPECT_THAT(with_match("system: redis.service"), HasSubstr("match.system: unknown key; did you mean 'systemd'?"));
  EXPECT_THAT(with_match("pids: []"), HasSubstr("expected a list such as"));
  EXPECT_THAT(with_match(""), HasSubstr("0 ways to find the tasks, expected exactly one of cgroup, pids, pid_file, "
                                        "systemd, docker, pod"));
  EXPECT_THAT(
      with_match("systemd: redis"),
      HasSubstr("match.systemd: 'redis', expected the full name of a service, scope or slice, such as redis.service"));
  EXPECT_THAT(with_match("docker: /redis"), HasSubstr("match.docker: '/redis', expected the name of a container"));
  EXPECT_THAT(with_match("pod: web"), HasSubstr("services[0].match.pod: 'web', expected keys such as namespace: ..."));
  EXPECT_THAT(with_match("pod: {name: web-0}"), HasSubstr("match.pod.namespace: missing, expected the namespace"));
  EXPECT_THAT(with_match("pod: {namespce: shop, name: web-0}"), HasSubstr("did you mean 'namespace'?"));
  EXPECT_THAT(with_match("pod: {namespace: shop}"),
              HasSubstr("match.pod: neither name nor labels, expected one of them"));
  EXPECT_THAT(with_match("pod: {namespace: shop, name: a, labels: {b: c}}"),
              HasSubstr("name and labels, expected one"));
  EXPECT_THAT(with_match("pod: {namespace: shop, labels: {a b: c}}"), HasSubstr("expected labels such as app: search"));
  EXPECT_THAT(with_match("pod: {namespace: shop, name: ../x}"),
              HasSubstr("'../x', expected lower-case letters, digits"));
  EXPECT_THAT(with_match("cgroup: a, systemd: a.service"), HasSubstr("2 ways to find the tasks"));
}

// A path behind '?' would be no path.
TEST(ConfigError, AnAddressThatPathsAreAppendedToHasNoQuery) {
  const auto with_url = [](const std::string& url) {
    return message_of("node: demo\nserver: {url: \"" + url + "\"}\n" + services);
  };
  EXPECT_EQ(with_url("http://h:1/prefix"), "(accepted)");
  for (const char* end : {"?", "/?a=b"}) {
    EXPECT_THAT(with_url(std::string("http://h:1") + end),
                HasSubstr("server.url: 'http://h:1" + std::string(end) + "', expected an address without '?'"));
  }
  EXPECT_THAT(with_url("http://h:1/#"), HasSubstr("expected an address without '#'"));
  EXPECT_THAT(message_of(head + "kubernetes: {url: \"https://h:1/?a\"}\n" + services),
              HasSubstr("kubernetes.url: 'https://h:1/?a', expected an address without '?'"));
}

TEST(ConfigError, CredentialsInAnAddressNameTheKeyOfThatAddress) {
  const std::string refused = "expected an address without user and password; ";
  EXPECT_THAT(message_of("node: demo\nserver: {url: \"http://u:p@h\"}\n" + services),
              HasSubstr("server.url: 'http://***@h', " + refused + "use server.token_file"));
  EXPECT_THAT(message_of(head + "kubelet: {url: \"https://u:p@h/pods\"}\n" + services),
              HasSubstr(refused + "use kubelet.token_file"));
  EXPECT_THAT(message_of(head + "kubernetes: {url: \"https://u:p@h\"}\n" + services),
              HasSubstr(refused + "use kubernetes.token_file"));
  const std::string metrics = "http://127.0.0.1:9100/metrics?name[]=rt";
  const auto scraped = [](const std::string& url) {
    return message_of(
        with_service("    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n    latency: {prometheus: "
                     "{url: \"" +
                     url + "\", metric: rt}}\n"));
  };
  EXPECT_EQ(scraped(metrics), "(accepted)");
  EXPECT_THAT(scraped("http://u:p@h/metrics"), HasSubstr(refused + "the agent asks this address without credentials"));
}

TEST(ConfigError, KubeletOnlyOverTls) {
  EXPECT_THAT(
      message_of(head + "kubelet: {url: \"http://127.0.0.1:10255/pods\"}\n" + services),
      HasSubstr("kubelet.url: 'http://127.0.0.1:10255/pods', expected an https address, since the agent sends"));
  EXPECT_THAT(message_of(head + "kubelet: {guaranteed: keep}\n" + services), HasSubstr("expected leave or take"));
}

TEST(ConfigError, ReportsToTheClusterNeedTlsAndANameThatItKnows) {
  EXPECT_THAT(message_of(head + "kubernetes: {url: \"http://10.0.0.1:8080\"}\n" + services),
              HasSubstr("kubernetes.url: 'http://10.0.0.1:8080', expected an https address, since the agent sends"));
  const std::string big = "node: Node_1\nserver: {url: \"http://h\"}\n";
  EXPECT_THAT(message_of(big + "kubernetes: {condition: on}\n" + services),
              HasSubstr("kubernetes.node_name: 'Node_1', expected the name of this node in the cluster"));
  EXPECT_EQ(message_of(big + "kubernetes: {condition: on, node_name: node-1}\n" + services), "(accepted)");
  EXPECT_EQ(message_of(big + "kubernetes: {condition: off}\n" + services), "(accepted)");
  EXPECT_THAT(message_of(head + "kubernetes: {heartbeat_s: 5}\n" + services), HasSubstr("seconds from 60 to 3600"));
}

TEST(ConfigError, LatencyCriticalWithoutTarget) {
  const std::string text = with_service("    class: lc\n    match: {pids: [1]}\n    latency: {file: /t}\n");
  EXPECT_THAT(message_of(text), HasSubstr("a.yaml:4:5: services[0].target_ms: missing"));
}

TEST(ConfigError, LatencyCriticalWithoutLatencySource) {
  const std::string text = with_service("    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n");
  EXPECT_THAT(message_of(text), HasSubstr("services[0].latency: missing"));
}

TEST(ConfigError, TwoLatencySources) {
  const std::string text = with_service(
      "    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n"
      "    latency: {file: /t, prometheus: {url: \"http://h/m\", metric: x}}\n");
  EXPECT_THAT(message_of(text), HasSubstr("services[0].latency: two sources, expected exactly one of"));
}

TEST(ConfigError, SocketPathThatTheKernelCannotTake) {
  const auto with_path = [](const std::string& path) {
    return with_service("    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n    latency: {datagram: " + path +
                        "}\n");
  };
  EXPECT_EQ(message_of(with_path("/" + std::string(106, 'x'))), "(accepted)");
  EXPECT_THAT(message_of(with_path("/" + std::string(107, 'x'))),
              HasSubstr("' has 108 bytes, expected a socket path of at most 107 bytes"));
}

TEST(ConfigError, SocketModes) {
  const auto with_latency = [](const std::string& latency) {
    return with_service("    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n    latency: {" + latency + "}\n");
  };
  EXPECT_EQ(message_of(with_latency("datagram: /s, datagram_mode: \"0666\"")), "(accepted)");
  EXPECT_THAT(message_of(with_latency("datagram: /s, datagram_mode: \"0777\"")),
              HasSubstr("datagram_mode: '0777', expected 0600, 0660 or 0666"));
  EXPECT_THAT(message_of(with_latency("file: /t, datagram_mode: \"0660\"")), HasSubstr("because datagram is not set"));
  EXPECT_THAT(message_of(with_latency("file: /t, datagram: /s")), HasSubstr("two sources"));
}

TEST(ConfigError, ASocketForEachService) {
  const std::string rest = "    class: lc\n    target_ms: 1\n    match: {pids: [1]}\n    latency: {datagram: /run/s}\n";
  EXPECT_THAT(message_of(with_service(rest + "  - name: other\n" + rest)),
              HasSubstr("services[1].latency.datagram: '/run/s' is also the socket of services[0]"));
}

TEST(ConfigError, MetricsFileThatNobodyWouldRead) {
  EXPECT_THAT(message_of(head + "metrics: {textfile: /var/osml.txt}\n" + services), HasSubstr("ends in .prom"));
}

TEST(ConfigError, BestEffortHasNoTarget) {
  const std::string text = with_service("    class: be\n    target_ms: 1\n    match: {pids: [1]}\n");
  EXPECT_THAT(message_of(text), HasSubstr("services[0].target_ms: '1', expected no latency target"));
}

TEST(ConfigError, TwoServicesWithOneName) {
  EXPECT_EQ(message_of(head + services + moses),
            "a.yaml:9:5: services[1].name: 'moses' is also the name of services[0], expected a different name for each "
            "service");
}

TEST(ConfigError, TwoWaysToMatch) {
  const std::string text = with_service("    class: be\n    match: {cgroup: be/x, pid_file: /p}\n");
  EXPECT_THAT(message_of(text), HasSubstr("services[0].match: 2 ways to find the tasks, expected exactly one"));
}

TEST(ConfigError, CgroupOutsideTheRoot) {
  EXPECT_THAT(message_of(with_service("    class: be\n    match: {cgroup: ../x}\n")), HasSubstr("without '..'"));
  EXPECT_THAT(message_of(with_service("    class: be\n    match: {cgroup: /x}\n")), HasSubstr("without leading '/'"));
  for (const char* root : {".", "./", "./."}) {
    EXPECT_THAT(message_of(with_service("    class: be\n    match: {cgroup: " + std::string(root) + "}\n")),
                HasSubstr("expected a cgroup below the root, not the root itself"));
  }
}

TEST(ConfigError, PidsAreNumbers) {
  EXPECT_THAT(message_of(with_service("    class: be\n    match: {pids: [nginx]}\n")),
              HasSubstr("a.yaml:6:20: services[0].match.pids: expected process ids above 0"));
}

TEST(ConfigError, MistypedUrls) {
  for (const char* url : {"127.0.0.1:8080", "ftp://h", "http://", "file:///etc/passwd"}) {
    const std::string text = "node: demo\nserver: {url: \"" + std::string(url) + "\"}\n" + services;
    EXPECT_THAT(message_of(text), HasSubstr("a.yaml:2:15: server.url: '" + std::string(url) + "', expected"));
  }
}

TEST(ConfigError, NumbersOutOfRange) {
  EXPECT_THAT(message_of(head + "interval_s: 0\n" + services), HasSubstr("interval_s: '0', expected seconds from"));
  EXPECT_THAT(message_of(head + "hold_s: -1\n" + services), HasSubstr("hold_s: '-1', expected"));
  EXPECT_THAT(message_of(head + "hold_s: nan\n" + services), HasSubstr("hold_s: 'nan', expected"));
  EXPECT_THAT(message_of(head + "time_scale: 1000\n" + services), HasSubstr("10 ms of wall time"));
  EXPECT_THAT(message_of(head + "cpu: {quantum: 2}\n" + services), HasSubstr("cpu.quantum: '2', expected auto, or"));
  EXPECT_THAT(message_of(head + "cpu: {cpus: 3-1}\n" + services), HasSubstr("cpu.cpus: '3-1', expected a CPU list"));
}

TEST(ConfigError, WordsOutsideTheChoice) {
  EXPECT_THAT(message_of(head + "fallback: panic\n" + services),
              HasSubstr("fallback: 'panic', expected hold, even or release"));
  EXPECT_THAT(message_of(head + "cpu: {backend: cgroup3}\n" + services), HasSubstr("cpu.backend: 'cgroup3'"));
}

TEST(ConfigError, LimitsThatContradict) {
  const std::string text =
      with_service("    class: be\n    match: {pids: [1]}\n    limits: {min_cores: 3, max_cores: 2}\n");
  EXPECT_THAT(message_of(text),
              HasSubstr("services[0].limits.max_cores: '2', expected at least min_cores, which is 3"));
}

TEST(ConfigError, AllMistakesInOneMessageInTheOrderOfTheFile) {
  const std::string message = message_of("interval_s: x\nnode: \"a b\"\nserver: 7\nhold: 3\nservices: {}\n");
  EXPECT_THAT(message, HasSubstr("a.yaml:1:13: interval_s: 'x'"));
  EXPECT_THAT(message, HasSubstr("\na.yaml:2:7: node: 'a b'"));
  EXPECT_THAT(message, HasSubstr("server: '7', expected keys such as url"));
  EXPECT_THAT(message, HasSubstr("\na.yaml:4:1: hold: unknown key; did you mean 'hold_s'?"));
  EXPECT_THAT(message, HasSubstr("services: expected a list"));
}

TEST(ConfigError, KeyGivenTwice) {
  EXPECT_THAT(message_of(head + "hold_s: 1\nhold_s: 2\n" + services), HasSubstr("a.yaml:4:1: hold_s: given twice"));
}

TEST(ConfigError, NoYamlAtAll) {
  EXPECT_THAT(message_of("node: [1,\n"), HasSubstr("a.yaml:2:1: not valid YAML"));
  EXPECT_EQ(message_of("just words"), "a.yaml:1:1: the file: 'just words', expected keys such as node: ...");
  EXPECT_EQ(message_of(""), "a.yaml:1:1: the file: empty, expected keys such as node: ...");
}

TEST(ConfigError, AMisspeltKeyIsOneMistakeAlsoWhereItIsRequired) {
  const std::string text =
      with_service("    class: lc\n    taget_ms: 10\n    latency: {file: /m}\n    match: {cgroup: a}\n");
  EXPECT_THAT(message_of(text), HasSubstr("services[0].taget_ms: unknown key; did you mean 'target_ms'?"));
  EXPECT_EQ(message_of(text).find('\n'), std::string::npos);
}

TEST(ConfigError, FileThatEverybodyCanWrite) {
  const fs::path path = fs::path(testing::TempDir()) / "config_error_open.yaml";
  std::ofstream(path) << head << services;
  ::chmod(path.c_str(), 0666);
  const auto open = load_config(path);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().kind, ErrorKind::Input);
  EXPECT_THAT(open.error().message, HasSubstr(path.string()));
  ::chmod(path.c_str(), 0644);
  EXPECT_TRUE(load_config(path));
  fs::remove(path);
}

TEST(ConfigError, FileThatIsNotThere) {
  const auto config = load_config("/nonexistent/agent.yaml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().kind, ErrorKind::Input);
  EXPECT_THAT(config.error().message, HasSubstr("/nonexistent/agent.yaml"));
}

TEST(Nearest, OnlyWhatIsNear) {
  EXPECT_EQ(nearest("serivces", {"server", "services"}), "services");
  EXPECT_EQ(nearest("zzz", {"server", "services"}), std::nullopt);
  EXPECT_EQ(nearest("polciy", {"policy", "platform"}), "policy");
}

TEST(ConfigError, APasswordInAnAddressIsNotRepeated) {
  for (const char* url : {"http://u:s3cret@h/", "http://u:s3@cret@h", "ftp://s3cret@h", "http://u:s3cret@h/v1"}) {
    const std::string text = std::string("node: n1\nserver: {url: \"") + url + "\"}\nservices: []\n";
    EXPECT_THAT(message_of(text), HasSubstr("***@h"));
    EXPECT_THAT(message_of(text), Not(HasSubstr("cret")));
  }
}

}  // namespace
}  // namespace osml
