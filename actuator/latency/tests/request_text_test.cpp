#include "request_text.h"

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace osml::latency {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<double> latencies(std::string_view text, const Format& format) {
  std::vector<double> found;
  const bool any = read_requests(text, format, [&found](const Request& one) { found.push_back(one.latency_ms); });
  EXPECT_EQ(any, !found.empty());
  return found;
}

TEST(RequestText, NginxAndHaproxyThroughSyslog) {
  EXPECT_THAT(latencies("<190>Nov 25 00:30:00 web nginx: osml=0.012 200 /index.html", {}), ElementsAre(12.0));
  const Format in_ms{false, "osml", 1.0};
  EXPECT_THAT(latencies("<134>Nov 25 00:30:00 haproxy[12]: 10.0.0.1 osml=37 200", in_ms), ElementsAre(37.0));
  EXPECT_THAT(latencies("\"osml=0.5\"", {}), ElementsAre(500.0));
}

// $upstream_response_time after a retry, and after another group of servers.
TEST(RequestText, ListsOfNginxAreSummed) {
  EXPECT_THAT(latencies("osml=0.001, 5.000", {}), ElementsAre(5001.0));
  EXPECT_THAT(latencies("osml=0.001, 5.000 : 0.020 200 0.500", {}), ElementsAre(5021.0));
  EXPECT_THAT(latencies("osml=-, 5.000", {}), ElementsAre(5000.0));
  EXPECT_THAT(latencies("osml=0.250, 200, /index", {}), ElementsAre(250.0)) << "the next field of the log";
  EXPECT_THAT(latencies("osml=0.250, 123", {}), ElementsAre(250.0));
  EXPECT_THAT(latencies("osml=-, -", {}), IsEmpty());
}

TEST(RequestText, SeveralValuesInOneLineOfDogStatsd) {
  const Format statsd{true, "search.request", 1000.0};
  EXPECT_THAT(latencies("search.request:1:2:3.5|ms|#env:a", statsd), ElementsAre(1.0, 2.0, 3.5));
  EXPECT_THAT(latencies("search.request:1:x:3|ms|@0.5", statsd), ElementsAre(1.0, 3.0));
  EXPECT_THAT(latencies("search.request.other:1|ms", statsd), IsEmpty());
  EXPECT_THAT(latencies("my.search.request:1|ms", statsd), IsEmpty());
}

TEST(RequestText, OnlyAWordOfTheLogIsTheKey) {
  EXPECT_THAT(latencies("notosml=9 osml=0.001", {}), ElementsAre(1.0));
  EXPECT_THAT(latencies("notosml=9", {}), IsEmpty());
  EXPECT_THAT(latencies("osml= osml=1", {}), IsEmpty());  // the first one counts, and it is empty
}

// The documentation says so: behind it may be what clients choose.
TEST(RequestText, TheFirstOfTwoKeysCounts) {
  EXPECT_THAT(latencies("osml=2.500 \"GET /?q=a,osml=0.001 HTTP/1.1\" 200", {}), ElementsAre(2500.0));
}

TEST(RequestText, WhatIsNoLatencyIsNone) {
  for (const char* number : {"-1", "nan", "inf", "-", "", "1e9", "0.012x", "0x10"}) {
    EXPECT_THAT(latencies(std::string("osml=") + number, {}), IsEmpty()) << number;
  }
  EXPECT_THAT(latencies("osml=0", {}), ElementsAre(0.0));
}

TEST(RequestText, StatsdTimersOfOneMetricWithSamplingRates) {
  const Format statsd{true, "api.latency", 1000.0};
  std::vector<Request> found;
  const std::string text = "api.latency:12.5|ms\napi.latency:3|ms|@0.1|#route:a\nother:9|ms\napi.latency:1|c\n";
  EXPECT_TRUE(read_requests(text, statsd, [&found](const Request& one) { found.push_back(one); }));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].latency_ms, 12.5);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[1].latency_ms, 3);
  EXPECT_DOUBLE_EQ(found[1].count, 10);
  EXPECT_THAT(latencies("api.latency:0.25|h", statsd), ElementsAre(250.0));
  for (const char* rate : {"0", "-1", "2", "x", "1e-9"}) {
    EXPECT_THAT(latencies(std::string("api.latency:3|ms|@") + rate, statsd), IsEmpty()) << rate;
  }
}

TEST(RequestText, BytesThatMakeNoSenseAreNoLatencies) {
  std::mt19937 random(7);
  const std::string letters = "osml=:|@ms.0123456789-\n\t \xff";
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 60, '\0');
    for (char& letter : text) letter = letters[random() % letters.size()];
    for (const bool statsd : {false, true}) {
      read_requests(text, {statsd, "osml", 1000.0}, [](const Request& one) {
        EXPECT_GE(one.latency_ms, 0);
        EXPECT_LE(one.latency_ms, 86'400'000);
        EXPECT_GE(one.count, 1);
      });
    }
  }
}

}  // namespace
}  // namespace osml::latency
