// What an operator should know, and not a thousand times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace osml::latency {

// Says something on standard error now and then, with how often it happened meanwhile.
class Complaint {
 public:
  void say(const std::string& text);

 private:
  std::optional<std::chrono::steady_clock::time_point> said_;
  std::uint64_t count_ = 0;
};

}  // namespace osml::latency
