#include "kubernetes/event_book.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace osml {

namespace {

constexpr double kept_s = 3000;  // API servers forget an event an hour after it was written last
constexpr std::size_t longest_node = 200;
const std::string events_path = std::string("/api/v1/namespaces/") + events_namespace + "/events";

// Unique by its time, as client-go makes it.
std::string name_of(const std::string& node, double unix_s) {
  constexpr double ns_per_s = 1e9;
  const std::string start = node.size() <= longest_node ? node : "osml-agent";
  return fmt::format("{}.{:016x}", start, static_cast<std::uint64_t>(unix_s * ns_per_s));
}

}  // namespace

double TokenBucket::filled(double now_s) const {
  return std::min(most_, tokens_ + std::max(0.0, now_s - filled_s_) / seconds_each_);
}

void EventBook::note(const EventText& text, const Moment& now) {
  Entry& entry = entries_[text.reason];
  if (entry.there && now.node_s - entry.written_s > kept_s) {
    entry.seen.count -= entry.written;
    entry.written = 0;
    entry.there = false;
    entry.name.clear();
  }
  entry.text = text;
  if (entry.pending()) ++merged_;
  if (!entry.pending()) entry.waits_since_s = now.node_s;
  if (entry.seen.count++ == 0) entry.seen.first_unix_s = now.unix_s;
  entry.seen.last_unix_s = now.unix_s;
}

EventBook::Entry* EventBook::next_entry(double now_s) {
  Entry* longest = nullptr;
  for (auto& [reason, entry] : entries_) {
    if (!entry.pending()) continue;
    if (entry.paid) return &entry;
    if (longest == nullptr || entry.waits_since_s < longest->waits_since_s) longest = &entry;
  }
  if (longest == nullptr || !bucket_.has_one(now_s)) return nullptr;
  bucket_.take(now_s);
  longest->paid = true;
  return longest;
}

std::optional<EventBook::Letter> EventBook::next(const Moment& now) {
  Entry* entry = next_entry(now.node_s);
  if (entry == nullptr) return std::nullopt;
  const std::string& reason = entry->text.reason;
  entry->sent = entry->seen.count;
  if (entry->there) {
    return Letter{reason, "PATCH", events_path + "/" + entry->name, repeated_event_body(entry->text, entry->seen)};
  }
  // The name stays over repetitions: an event whose answer was lost shall not be there twice.
  if (entry->name.empty()) entry->name = name_of(node_, now.unix_s);
  return Letter{reason, "POST", events_path, event_body(node_, entry->name, entry->text, entry->seen)};
}

void EventBook::settle(const std::string& reason, Fate fate, double now_s) {
  Entry& entry = entries_[reason];
  if (fate == Fate::Unknown) return;
  entry.there = fate == Fate::Written;
  if (fate == Fate::Gone) {
    entry.name.clear();
    return;
  }
  entry.written = entry.sent;
  entry.written_s = now_s;
  entry.paid = false;
  entry.waits_since_s = now_s;
}

}  // namespace osml
