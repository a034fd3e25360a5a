// A few events an hour, whatever happens, and none that is lost; and the pauses after failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kubernetes/event_book.h"
#include "kubernetes/lane.h"

namespace osml {
namespace {

using nlohmann::json;
using testing::StartsWith;
using Fate = EventBook::Fate;

const EventText missed{"Warning", "LatencyTargetsMissed", "These services miss their latency targets: api."};
const EventText met{"Normal", "LatencyTargetsMet", "These services meet their latency targets: api."};

Moment at(double seconds) { return {seconds, 1764072000 + seconds}; }

TEST(EventBook, ARepetitionCountsUpTheEventThatIsThere) {
  EventBook book("node-17");
  EXPECT_FALSE(book.next(at(0)));
  book.note(missed, at(0));
  const auto first = book.next(at(1));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->method, "POST");
  EXPECT_EQ(first->path, "/api/v1/namespaces/default/events");
  const std::string name = json::parse(first->body)["metadata"]["name"];
  EXPECT_THAT(name, StartsWith("node-17."));
  book.settle(first->reason, Fate::Written, 1);
  EXPECT_FALSE(book.next(at(2)));
  book.note(missed, at(600));
  const auto second = book.next(at(600));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->method, "PATCH");
  EXPECT_EQ(second->path, "/api/v1/namespaces/default/events/" + name);
  EXPECT_EQ(json::parse(second->body)["count"], 2);
}

TEST(EventBook, AFlappingServiceMakesAFewEventsAnHour) {
  EventBook book("node-17");
  std::map<std::string, std::uint64_t> counts;  // by event
  const auto take = [&](const EventBook::Letter& letter) {
    const json body = json::parse(letter.body);
    const bool fresh = letter.method == "POST";
    const std::string name =
        fresh ? body["metadata"]["name"].get<std::string>() : letter.path.substr(letter.path.rfind('/') + 1);
    counts[letter.reason + "/" + name] = body["count"].get<std::uint64_t>();
  };
  int written = 0;
  for (int second = 0; second < 3600; second += 30) {
    book.note(second % 60 == 0 ? missed : met, at(second));
    while (const auto letter = book.next(at(second))) {
      ++written;
      take(*letter);
      book.settle(letter->reason, Fate::Written, second);
    }
  }
  EXPECT_LE(written, 6);
  EXPECT_GE(written, 4);
  // What was merged comes with the next token.
  for (int second = 3600; second < 7200; second += 60) {
    while (const auto letter = book.next(at(second))) {
      take(*letter);
      book.settle(letter->reason, Fate::Written, second);
    }
  }
  std::map<std::string, std::uint64_t> sums;
  for (const auto& [event, count] : counts) sums[event.substr(0, event.find('/'))] += count;
  EXPECT_EQ(sums["LatencyTargetsMissed"], 60U);
  EXPECT_EQ(sums["LatencyTargetsMet"], 60U);
  EXPECT_GT(book.merged(), 100U);
}

TEST(EventBook, AnEventWhoseAnswerWasLostKeepsItsNameAndPaysOnce) {
  EventBook book("node-17");
  book.note(missed, at(0));
  std::set<std::string> names;
  for (int second = 0; second < 10; ++second) {
    const auto letter = book.next(at(second));
    ASSERT_TRUE(letter) << second;
    names.insert(json::parse(letter->body)["metadata"]["name"].get<std::string>());
    book.settle(letter->reason, Fate::Unknown, second);
  }
  EXPECT_EQ(names.size(), 1U);
}

TEST(EventBook, WhatTheServerForgotIsWrittenAnew) {
  EventBook book("node-17");
  book.note(missed, at(0));
  book.settle(book.next(at(0))->reason, Fate::Written, 0);
  book.note(missed, at(100));
  EXPECT_EQ(book.next(at(100))->method, "PATCH");
  book.settle(missed.reason, Fate::Gone, 100);
  EXPECT_FALSE(book.there(missed.reason));
  const auto again = book.next(at(101));
  EXPECT_EQ(again->method, "POST");
  EXPECT_EQ(json::parse(again->body)["count"], 2);
  book.settle(missed.reason, Fate::Written, 101);
  // An hour later it is another event.
  book.note(missed, at(3701));
  const auto late = book.next(at(3701));
  EXPECT_EQ(late->method, "POST");
  EXPECT_EQ(json::parse(late->body)["count"], 1);
}

TEST(EventBook, AVeryLongNameOfANodeMakesNoLongerNameOfAnEvent) {
  EventBook book(std::string(253, 'n'));
  book.note(missed, at(0));
  const std::string name = json::parse(book.next(at(0))->body)["metadata"]["name"];
  EXPECT_LE(name.size(), 253U);
}

TEST(Lane, PausesDoubleUpToTenMinutesAndDifferFromNodeToNode) {
  Lane lane("node-17");
  Lane other("node-18");
  double longest_s = 0;
  int different = 0;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(lane.failed(0, 0, "away"), i == 0) << "the same again is no news";
    (void)other.failed(0, 0, "away");
    const double full_s = std::min(10.0 * (1 << std::min(i, 6)), 600.0);
    EXPECT_GE(lane.wait_s(0), full_s / 2);
    EXPECT_LE(lane.wait_s(0), full_s);
    longest_s = std::max(longest_s, lane.wait_s(0));
    different += lane.wait_s(0) != other.wait_s(0) ? 1 : 0;
  }
  EXPECT_GT(longest_s, 300);
  EXPECT_EQ(different, 12);
  EXPECT_TRUE(lane.failed(0, 0, "forbidden"));
  EXPECT_TRUE(lane.succeeded());
  EXPECT_FALSE(lane.succeeded());
  EXPECT_TRUE(lane.due(0));
}

TEST(Lane, WaitsAsLongAsItIsAskedTo) {
  Lane lane("node-17");
  (void)lane.failed(100, 120, "busy");
  EXPECT_EQ(lane.wait_s(100), 120);
  (void)lane.failed(100, 1e9, "busy");
  EXPECT_EQ(lane.wait_s(100), 600) << "no Retry-After may silence the agent for ever";
}

}  // namespace
}  // namespace osml
