// The events of this node: one for each reason, which is counted up while the API server keeps it. At most three at
// once and three an hour are written; what comes faster is counted into the next one, so that nothing is lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "kubernetes/bodies.h"
#include "kubernetes/facts.h"

namespace osml {

// Tokens that come back with time.
class TokenBucket {
 public:
  TokenBucket(double most, double seconds_each) : most_(most), seconds_each_(seconds_each), tokens_(most) {}
  [[nodiscard]] bool has_one(double now_s) const { return filled(now_s) >= 1; }
  void take(double now_s) {
    tokens_ = filled(now_s) - 1;
    filled_s_ = now_s;
  }

 private:
  [[nodiscard]] double filled(double now_s) const;

  double most_;
  double seconds_each_;
  double tokens_;
  double filled_s_ = 0;
};

class EventBook {
 public:
  explicit EventBook(std::string node) : node_(std::move(node)) {}

  void note(const EventText& text, const Moment& now);

  struct Letter {
    std::string reason;
    std::string method;  // POST | PATCH
    std::string path;
    std::string body;
  };
  // The next one to write; none where there is none, or where it has to wait for a token.
  std::optional<Letter> next(const Moment& now);
  // What became of the letter: it is there now, it is not there (any more), or nobody knows.
  enum class Fate { Written, Gone, Unknown };
  void settle(const std::string& reason, Fate fate, double now_s);
  // Whether the API server has the event of this reason, as far as is known.
  [[nodiscard]] bool there(const std::string& reason) const {
    const auto found = entries_.find(reason);
    return found != entries_.end() && found->second.there;
  }
  // Occurrences that went into an event with others.
  [[nodiscard]] std::uint64_t merged() const { return merged_; }

 private:
  struct Entry {
    EventText text;
    EventCount seen{.count = 0};
    std::uint64_t written = 0;  // of the count
    std::uint64_t sent = 0;     // the same of the letter under way
    std::string name;           // empty: not sent yet
    bool there = false;         // the API server has it
    bool paid = false;          // its token was taken, and it is not written yet
    double written_s = 0;
    double waits_since_s = 0;  // for its turn

    [[nodiscard]] bool pending() const { return seen.count > written; }
  };

  // Whose turn it is, its token taken; null where there is none.
  Entry* next_entry(double now_s);

  std::string node_;
  std::map<std::string, Entry> entries_;  // by reason
  TokenBucket bucket_{3, 1200};
  std::uint64_t merged_ = 0;
};

}  // namespace osml
