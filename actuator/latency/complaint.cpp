#include "complaint.h"

#include <iostream>

namespace osml::latency {

void Complaint::say(const std::string& text) {
  constexpr std::chrono::seconds every{60};
  ++count_;
  const auto now = std::chrono::steady_clock::now();
  if (said_ && now - *said_ < every) return;
  std::cerr << "osml-latency: " << text << " (" << count_ << " times)\n";
  said_ = now;
  count_ = 0;
}

}  // namespace osml::latency
