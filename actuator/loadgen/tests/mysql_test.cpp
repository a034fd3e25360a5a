// MySQL's protocol: the log-in, results and refusals, whole, cut at every byte, and hostile.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "workload.h"

namespace osml::loadgen {
namespace {

std::string packet(unsigned char sequence, const std::string& payload) {
  std::string bytes;
  for (unsigned shift = 0; shift < 24; shift += 8) bytes += static_cast<char>((payload.size() >> shift) & 0xffU);
  return bytes + static_cast<char>(sequence) + payload;
}

const std::string kOk("\x00\x00\x00\x02\x00\x00\x00", 7);
const std::string kEof("\xfe\x00\x00\x02\x00", 5);
const std::string kRefusal = "\xff\x15\x04#42000no such table";

std::string result(const std::vector<std::string>& rows) {
  std::string bytes = packet(1, "\x02") +
                      packet(2,
                             "\x03"
                             "def column one") +
                      packet(3,
                             "\x03"
                             "def column two");
  bytes += packet(4, kEof);
  unsigned char sequence = 5;
  for (const auto& row : rows) bytes += packet(sequence++, row);
  return bytes + packet(sequence, kEof);
}

struct Case {
  const char* label;
  std::string bytes;
  Outcome want;
};

std::vector<Case> cases() {
  return {
      {"update", packet(1, kOk), Outcome::Complete},
      {"rows",
       result({"\x02"
               "12"
               "\x04"
               "name",
               "\x01"
               "3"
               "\x00"}),
       Outcome::Complete},
      {"no rows", result({}), Outcome::Complete},
      {"row that begins as an end does but is longer", result({std::string("\xfe") + std::string(20, 'x')}),
       Outcome::Complete},
      {"refusal", packet(1, kRefusal), Outcome::Refused},
      {"refusal among the rows", packet(1, "\x01") + packet(2, "column") + packet(3, kEof) + packet(4, kRefusal),
       Outcome::Refused},
      {"wrong sequence number", packet(2, kOk), Outcome::Broken},
      {"empty packet", packet(1, ""), Outcome::Broken},
      {"end where columns are due", packet(1, "\x01") + packet(2, kEof), Outcome::Broken},
      {"column too many", packet(1, "\x01") + packet(2, "column") + packet(3, "column"), Outcome::Broken},
      {"file that the server wants", packet(1, "\xfb/etc/passwd"), Outcome::Broken},
      {"two answers to one request", packet(1, kOk) + packet(2, kOk), Outcome::Broken},
      {"another protocol", "HTTP/1.1 400 Bad Request\r\n", Outcome::Broken},
      {"payload that goes on in the next packet", std::string("\xff\xff\xff\x01", 4), Outcome::Broken},
  };
}

std::unique_ptr<ReplyReader> reader() {
  auto made = make_mysql_workload({"SELECT 1"})->make_reader();
  made->restart();
  return made;
}

TEST(Mysql, AnswersAreToldApart) {
  for (const auto& each : cases()) EXPECT_EQ(reader()->feed(each.bytes), each.want) << each.label;
}

TEST(Mysql, AnswersCutAnywhereMeanTheSame) {
  for (const auto& each : cases()) {
    if (each.want == Outcome::Broken) continue;
    for (std::size_t cut = 1; cut < each.bytes.size(); ++cut) {
      const auto cut_reader = reader();
      ASSERT_EQ(cut_reader->feed(each.bytes.substr(0, cut)), Outcome::Incomplete) << each.label << " at " << cut;
      ASSERT_EQ(cut_reader->feed(each.bytes.substr(cut)), each.want) << each.label << " at " << cut;
    }
  }
}

TEST(Mysql, LogsInAsTheServerAsksWhereverItsWordsAreCut) {
  const std::string greeting = packet(0,
                                      "\x0a"
                                      "10.11.19-MariaDB");
  for (std::size_t cut = 1; cut <= greeting.size(); ++cut) {
    const auto made = reader();
    ASSERT_TRUE(made->begin_greeting());
    std::string answer;
    ASSERT_EQ(made->greet(greeting.substr(0, cut), answer), Outcome::Incomplete);
    if (cut < greeting.size()) {
      ASSERT_EQ(answer, "");
      ASSERT_EQ(made->greet(greeting.substr(cut), answer), Outcome::Incomplete);
    }
    ASSERT_GT(answer.size(), 36U);
    EXPECT_EQ(answer[3], 1) << "the answer has the next sequence number";
    EXPECT_NE(answer.find("mysql_native_password"), std::string::npos);
    EXPECT_EQ(made->greet(packet(2, kOk), answer), Outcome::Complete);
  }
}

TEST(Mysql, RefusedLogInEndsTheConnection) {
  for (const auto& second : {packet(2, kRefusal),
                             packet(2,
                                    "\xfe"
                                    "other_plugin"),
                             packet(7, kOk)}) {
    const auto made = reader();
    made->begin_greeting();
    std::string answer;
    ASSERT_EQ(made->greet(packet(0,
                                 "\x0a"
                                 "10"),
                          answer),
              Outcome::Incomplete);
    EXPECT_EQ(made->greet(second, answer), Outcome::Broken);
  }
  const auto made = reader();
  made->begin_greeting();
  std::string answer;
  EXPECT_EQ(made->greet(packet(0,
                               "\x09"
                               "old"),
                        answer),
            Outcome::Broken);
}

TEST(Mysql, RequestIsOnePacketWithTheStatement) {
  const auto workload = make_mysql_workload({"SELECT 1"});
  Random random(1);
  EXPECT_EQ(workload->next_request(random), packet(0,
                                                   "\x03"
                                                   "SELECT 1"));
}

TEST(Mysql, RandomBytesNeverPassForRows) {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(64, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    EXPECT_NE(reader()->feed(bytes), Outcome::Complete);
  }
}

}  // namespace
}  // namespace osml::loadgen
