// NRI's frames: what goes out, and what comes in whole, in pieces, or as nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nri/frames.h"

namespace osml::nri {
namespace {

using testing::HasSubstr;

std::vector<Message> all_of(Unframer& unframer) {
  std::vector<Message> found;
  while (auto message = unframer.next()) found.push_back(std::move(*message));
  return found;
}

std::vector<Message> some_messages() {
  return {{plugin_connection, 1, Message::Type::Request, "abc"},
          {plugin_connection, 3, Message::Type::Request, ""},
          {runtime_connection, 1, Message::Type::Response, std::string(10'000, 'x')},
          {plugin_connection, 5, Message::Type::Response, std::string("\0\xff", 2)}};
}

TEST(NriFrames, AMessageAsBytes) {
  EXPECT_EQ(framed({runtime_connection, 3, Message::Type::Request, "ab"}), std::string("\0\0\0\2"
                                                                                       "\0\0\0\x0c"
                                                                                       "\0\0\0\2\0\0\0\3\1\1"
                                                                                       "ab",
                                                                                       20));
}

TEST(NriFrames, LongMessagesGoOutInFramesThatTheOtherEndReads) {
  const std::string bytes = framed({plugin_connection, 1, Message::Type::Response, std::string(10'000, 'x')});
  constexpr std::size_t frames = 3;
  EXPECT_EQ(bytes.size(), 10'000 + 10 + frames * 8);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\0\0\0\1\0\0\x10\0", 8));
}

class NriPieces : public testing::TestWithParam<std::size_t> {};

TEST_P(NriPieces, ComeTogetherAgain) {
  std::string bytes;
  for (const Message& message : some_messages()) bytes += framed(message);
  Unframer unframer;
  std::vector<Message> found;
  for (std::size_t at = 0; at < bytes.size(); at += GetParam()) {
    ASSERT_TRUE(unframer.feed(std::string_view(bytes).substr(at, GetParam())));
    for (Message& message : all_of(unframer)) found.push_back(std::move(message));
  }
  EXPECT_THAT(found, testing::UnorderedElementsAreArray(some_messages()));
}

INSTANTIATE_TEST_SUITE_P(OfAnySize, NriPieces, testing::Values(1, 7, 4096, 100'000));

TEST(NriFrames, OtherTypesOfMessagesArePassedOver) {
  std::string bytes = framed({plugin_connection, 1, Message::Type::Request, "abc"});
  bytes[8 + 8] = 3;  // data of a stream
  Unframer unframer;
  ASSERT_TRUE(unframer.feed(bytes + framed({plugin_connection, 3, Message::Type::Request, "def"})));
  const auto message = unframer.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload, "def");
}

TEST(NriFrames, WhatNoRuntimeSendsIsRefusedBeforeItIsKept) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HTTP/1.1 400", "a frame of connection 1213486160, expected 1 or 2"},
      {std::string("\0\0\0\0\0\0\0\0", 8), "a frame of connection 0"},
      {std::string("\0\0\0\1\xff\xff\xff\xff", 8), "a frame of 4294967295 bytes, expected 4 MiB at most"},
      {std::string("\0\0\0\1\0\0\0\x0a\x7f\0\0\0\0\0\0\1\1\0", 18), "a message of 2130706432 bytes"}};
  for (const auto& [bytes, why] : cases) {
    Unframer unframer;
    const Status fed = unframer.feed(bytes);
    ASSERT_FALSE(fed);
    EXPECT_THAT(fed.error().message, HasSubstr(why));
  }
}

}  // namespace
}  // namespace osml::nri
