// Each protocol's replies: whole, cut at every byte, and hostile.
#include <gtest/gtest.h>

#include <string>

#include "workload.h"

namespace osml::loadgen {
namespace {

struct Case {
  const char* label;
  Protocol protocol;
  std::string bytes;
  Outcome want;
};

std::string http(const std::string& status, const std::string& headers, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\n" + headers + "\r\n" + body;
}

std::vector<Case> cases() {
  return {
      {"simple string", Protocol::Redis, "+OK\r\n", Outcome::Complete},
      {"integer", Protocol::Redis, ":1\r\n", Outcome::Complete},
      {"bulk string", Protocol::Redis, "$5\r\nhe\r\no\r\n", Outcome::Complete},
      {"empty bulk string", Protocol::Redis, "$0\r\n\r\n", Outcome::Complete},
      {"missing key", Protocol::Redis, "$-1\r\n", Outcome::Complete},
      {"error", Protocol::Redis, "-OOM command not allowed\r\n", Outcome::Refused},
      {"negative size", Protocol::Redis, "$-2\r\n", Outcome::Broken},
      {"size beyond 64 bits", Protocol::Redis, "$99999999999999999999999\r\n", Outcome::Broken},
      {"size of a gigabyte", Protocol::Redis, "$1073741824\r\n", Outcome::Broken},
      {"longer than it says", Protocol::Redis, "$2\r\nhello\r\n", Outcome::Broken},
      {"two replies to one request", Protocol::Redis, "+OK\r\n+OK\r\n", Outcome::Broken},
      {"no protocol at all", Protocol::Redis, "<html>\r\n", Outcome::Broken},
      {"newline without return", Protocol::Redis, "+OK\n", Outcome::Broken},
      {"stored", Protocol::Memcached, "STORED\r\n", Outcome::Complete},
      {"value", Protocol::Memcached, "VALUE key:1 0 4\r\n\r\nEN\r\nEND\r\n", Outcome::Complete},
      {"miss", Protocol::Memcached, "END\r\n", Outcome::Complete},
      {"server error", Protocol::Memcached, "SERVER_ERROR out of memory\r\n", Outcome::Refused},
      {"not stored", Protocol::Memcached, "NOT_STORED\r\n", Outcome::Refused},
      {"value without a size", Protocol::Memcached, "VALUE key:1\r\n", Outcome::Broken},
      {"value with a negative size", Protocol::Memcached, "VALUE key:1 0 -4\r\n", Outcome::Broken},
      {"value that ends elsewhere", Protocol::Memcached, "VALUE key:1 0 2\r\nabcd\r\n", Outcome::Broken},
      {"page", Protocol::Http, http("200 OK", "Content-Length: 5\r\n", "hello"), Outcome::Complete},
      {"lower case header", Protocol::Http, http("200 OK", "content-length:5 \r\n", "a\r\n\r\n"), Outcome::Complete},
      {"empty page", Protocol::Http, http("200 OK", "Content-Length: 0\r\n", ""), Outcome::Complete},
      {"not found", Protocol::Http, http("404 Not Found", "Content-Length: 2\r\n", "no"), Outcome::Refused},
      {"no length", Protocol::Http, http("200 OK", "Server: x\r\n", ""), Outcome::Broken},
      {"two lengths", Protocol::Http, http("200 OK", "Content-Length: 1\r\nContent-Length: 2\r\n", ""),
       Outcome::Broken},
      {"length with a sign", Protocol::Http, http("200 OK", "Content-Length: +5\r\n", ""), Outcome::Broken},
      {"chunks", Protocol::Http,
       http("200 OK", "Transfer-Encoding: chunked\r\n", "a;x=y\r\n0123\r\n6789\r\n1\r\nx\r\n0\r\n\r\n"),
       Outcome::Complete},
      {"trailer", Protocol::Http, http("200 OK", "Transfer-Encoding: chunked\r\n", "0\r\nDigest: x\r\n\r\n"),
       Outcome::Complete},
      {"refused in chunks", Protocol::Http, http("500 Oh", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       Outcome::Refused},
      {"chunk of no number", Protocol::Http, http("200 OK", "Transfer-Encoding: chunked\r\n", "z\r\n"),
       Outcome::Broken},
      {"chunk of a negative number", Protocol::Http, http("200 OK", "Transfer-Encoding: chunked\r\n", "-1\r\n"),
       Outcome::Broken},
      {"chunk beyond all bounds", Protocol::Http,
       http("200 OK", "Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n"), Outcome::Broken},
      {"chunk that ends elsewhere", Protocol::Http, http("200 OK", "Transfer-Encoding: chunked\r\n", "1\r\nxy\r\n"),
       Outcome::Broken},
      {"other encoding", Protocol::Http, http("200 OK", "Transfer-Encoding: gzip\r\n", ""), Outcome::Broken},
      {"length and chunks", Protocol::Http, http("200 OK", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", ""),
       Outcome::Broken},
      {"absurd status", Protocol::Http, http("999 Huh", "Content-Length: 0\r\n", ""), Outcome::Broken},
      {"header without a colon", Protocol::Http, http("200 OK", "Content-Length 5\r\n", ""), Outcome::Broken},
      {"more body than announced", Protocol::Http, http("200 OK", "Content-Length: 1\r\n", "ab"), Outcome::Broken},
  };
}

TEST(Replies, AreToldApartWhole) {
  for (const auto& each : cases()) {
    const auto reader = make_workload(each.protocol, "h")->make_reader();
    EXPECT_EQ(reader->feed(each.bytes), each.want) << each.label;
  }
}

// What stands behind the end of a reply is only seen when it comes with it, so those cases need the whole.
TEST(Replies, AreToldApartByteByByte) {
  for (const auto& each : cases()) {
    const auto reader = make_workload(each.protocol, "h")->make_reader();
    Outcome outcome = Outcome::Incomplete;
    std::size_t used = 0;
    while (used < each.bytes.size() && outcome == Outcome::Incomplete)
      outcome = reader->feed(each.bytes.substr(used++, 1));
    if (used == each.bytes.size()) {
      EXPECT_EQ(outcome, each.want) << each.label;
    } else if (each.want != Outcome::Broken) {
      ADD_FAILURE() << each.label << " ended after byte " << used;
    }
  }
}

TEST(Replies, CutInTwoAnywhereMeanTheSame) {
  for (const auto& each : cases()) {
    if (each.want == Outcome::Broken) continue;
    for (std::size_t cut = 1; cut < each.bytes.size(); ++cut) {
      const auto reader = make_workload(each.protocol, "h")->make_reader();
      ASSERT_EQ(reader->feed(each.bytes.substr(0, cut)), Outcome::Incomplete) << each.label << " at " << cut;
      ASSERT_EQ(reader->feed(each.bytes.substr(cut)), each.want) << each.label << " at " << cut;
    }
  }
}

TEST(Replies, EndlessLineIsBroken) {
  for (const auto protocol : {Protocol::Redis, Protocol::Memcached, Protocol::Http}) {
    const auto reader = make_workload(protocol, "h")->make_reader();
    Outcome outcome = Outcome::Incomplete;
    std::size_t fed = 0;
    while (outcome == Outcome::Incomplete && fed < 1'000'000) {
      outcome = reader->feed(std::string(1000, '+'));
      fed += 1000;
    }
    EXPECT_EQ(outcome, Outcome::Broken);
    EXPECT_LE(fed, ReplyReader::kMaxLine + 1000);
  }
}

TEST(Replies, EndlessHeadersAreBroken) {
  const auto reader = make_workload(Protocol::Http, "h")->make_reader();
  ASSERT_EQ(reader->feed("HTTP/1.1 200 OK\r\n"), Outcome::Incomplete);
  Outcome outcome = Outcome::Incomplete;
  for (int i = 0; i < 1000 && outcome == Outcome::Incomplete; ++i) outcome = reader->feed("X: y\r\n");
  EXPECT_EQ(outcome, Outcome::Broken);
}

TEST(Replies, RandomBytesNeverPassForAReplyOfMemcached) {
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    const auto reader = make_workload(Protocol::Memcached, "h")->make_reader();
    std::string bytes(64, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    EXPECT_NE(reader->feed(bytes + "\r\n"), Outcome::Complete);
  }
}

TEST(Replies, FollowEachOtherOnOneConnection) {
  const auto reader = make_workload(Protocol::Http, "h")->make_reader();
  for (int i = 0; i < 3; ++i) {
    reader->restart();
    EXPECT_EQ(reader->feed(http("200 OK", "Content-Length: 1\r\n", "x")), Outcome::Complete);
    EXPECT_FALSE(reader->closes());
  }
  reader->restart();
  EXPECT_EQ(reader->feed(http("200 OK", "Connection: close\r\nContent-Length: 1\r\n", "x")), Outcome::Complete);
  EXPECT_TRUE(reader->closes());
}

TEST(Workload, MixesReadsAndWritesInSoundRequests) {
  Random random(1);
  const auto redis = make_redis_workload(10, 3);
  int reads = 0;
  int writes = 0;
  int counts = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string request(redis->next_request(random));
    reads += request.starts_with("*2\r\n$3\r\nGET\r\n$5\r\nkey:") ? 1 : 0;
    writes += request.starts_with("*3\r\n$3\r\nSET\r\n$5\r\nkey:") && request.ends_with("\r\n$3\r\nvvv\r\n") ? 1 : 0;
    counts += request.starts_with("*8\r\n$7\r\nPFCOUNT\r\n$10\r\nvisitors:0\r\n") ? 1 : 0;
  }
  EXPECT_EQ(reads + writes + counts, 10'000);
  EXPECT_NEAR(reads, 6000, 300);
  EXPECT_NEAR(writes, 1000, 200);
}

}  // namespace
}  // namespace osml::loadgen
