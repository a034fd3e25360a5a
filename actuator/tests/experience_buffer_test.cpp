// Experiences that wait: a valid body whatever is in it, bounds that hold, and batches that stay what they were.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "experience/buffer.h"

namespace osml {
namespace {

using nlohmann::json;

Experience experience(int number, std::size_t padding = 0) {
  const auto text = [&](int seq) {
    return std::make_shared<const std::string>(json{{"seq", seq}, {"x", std::string(padding, 'x')}}.dump());
  };
  return {text(number), json{{"seq", number}}.dump(), text(number + 1)};
}

std::vector<int> numbers(const ExperienceBuffer::Batch& batch) {
  std::vector<int> found;
  const json body = json::parse(batch.body);
  for (const json& each : body.at("experiences")) {
    EXPECT_EQ(each.size(), 3U);
    EXPECT_EQ(each.at("decision").at("seq"), each.at("before").at("seq"));
    EXPECT_EQ(each.at("after").at("seq"), each.at("before").at("seq").get<int>() + 1);
    found.push_back(each.at("before").at("seq"));
  }
  EXPECT_EQ(found.size(), batch.count);
  return found;
}

TEST(ExperienceBuffer, WhatWaitsOutlivesAReload) {
  ExperienceBuffer before({.count = 3, .bytes = std::size_t{4} << 20U});
  for (int i = 0; i < 5; ++i) before.push(experience(i));
  ExperienceBuffer after;
  after.take_over(before, true);
  after.push(experience(5));
  EXPECT_EQ(numbers(*after.batch(256, 1U << 20U)), (std::vector<int>{2, 3, 4, 5}));
  EXPECT_EQ(after.dropped(), 2U);
  EXPECT_EQ(before.size(), 0U);
  EXPECT_EQ(before.bytes(), 0U);
  after.forget_through(after.batch(256, 1U << 20U)->last);
  EXPECT_EQ(after.size(), 0U);
  EXPECT_EQ(after.bytes(), 0U);
}

TEST(ExperienceBuffer, WhatAnotherServerMayNotHaveIsCountedAsLost) {
  ExperienceBuffer before({.count = 3, .bytes = std::size_t{4} << 20U});
  for (int i = 0; i < 5; ++i) before.push(experience(i));
  ExperienceBuffer after;
  after.take_over(before, false);
  EXPECT_EQ(after.size(), 0U);
  EXPECT_EQ(after.dropped(), 5U);
}

TEST(ExperienceBuffer, AnEmptyOneHasNothingToSend) { EXPECT_FALSE(ExperienceBuffer().batch(256, 1U << 20U)); }

TEST(ExperienceBuffer, ABatchIsTheOldestOnesWithinBothLimits) {
  ExperienceBuffer buffer;
  for (int i = 0; i < 5; ++i) buffer.push(experience(i, 100));
  EXPECT_EQ(numbers(*buffer.batch(3, 1U << 20U)), (std::vector<int>{0, 1, 2}));
  const std::size_t two = 2 * experience(0, 100).bytes();
  const auto batch = buffer.batch(256, two + 40);
  EXPECT_EQ(numbers(*batch), (std::vector<int>{0, 1}));
  EXPECT_LE(batch->body.size(), two + 40);
  EXPECT_EQ(numbers(*buffer.batch(256, 1)), (std::vector<int>{0})) << "one goes whatever its size";
  EXPECT_EQ(buffer.size(), 5U) << "taking a batch forgets nothing";
}

TEST(ExperienceBuffer, TheOldestMakeRoomAndAreCounted) {
  ExperienceBuffer few({.count = 3, .bytes = 1U << 20U});
  for (int i = 0; i < 10; ++i) few.push(experience(i));
  EXPECT_EQ(numbers(*few.batch(256, 1U << 20U)), (std::vector<int>{7, 8, 9}));
  EXPECT_EQ(few.dropped(), 7U);
  ExperienceBuffer small({.count = 1000, .bytes = 2000});
  for (int i = 0; i < 1000; ++i) {
    small.push(experience(i, static_cast<std::size_t>(i % 300)));
    EXPECT_LE(small.bytes(), 2000U);
  }
  EXPECT_EQ(small.size() + small.dropped(), 1000U);
  small.push(experience(1000, 4000));  // larger than all the room there is
  EXPECT_EQ(small.size(), 0U);
  EXPECT_EQ(small.bytes(), 0U);
}

TEST(ExperienceBuffer, ASettledBatchTakesNothingAlongThatCameLater) {
  ExperienceBuffer buffer({.count = 4, .bytes = 1U << 20U});
  for (int i = 0; i < 4; ++i) buffer.push(experience(i));
  const auto batch = buffer.batch(3, 1U << 20U);
  for (int i = 4; i < 6; ++i) buffer.push(experience(i));  // 0 and 1 go while the batch is under way
  buffer.forget_through(batch->last);
  EXPECT_EQ(numbers(*buffer.batch(256, 1U << 20U)), (std::vector<int>{3, 4, 5}));
  buffer.forget_through(batch->last);
  EXPECT_EQ(buffer.size(), 3U);
}

TEST(ExperienceBuffer, AClosedOneTakesNoMore) {
  ExperienceBuffer buffer;
  buffer.push(experience(0));
  buffer.close();
  buffer.push(experience(1));
  EXPECT_EQ(buffer.size(), 0U);
  EXPECT_EQ(buffer.bytes(), 0U);
  EXPECT_EQ(buffer.dropped(), 1U) << "the one that waited";
}

}  // namespace
}  // namespace osml
