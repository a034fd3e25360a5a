#include "cli/replay_report.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace osml::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const Replayed& one) {
  const auto& [line, time_s, decision, then] = one.recorded;
  Json recorded = nullptr;
  if (then) recorded = {{"status", then->status}, {"message", then->message}};
  Json reasons = Json::array();
  for (const Reason& reason : decision.reasons) reasons.push_back(reason.text);
  return {{"line", line},
          {"seq", decision.seq},
          {"time_s", time_s},
          {"policy", decision.policy},
          {"reasons", std::move(reasons)},
          {"status", text_of(one.outcome.status)},
          {"message", one.outcome.message},
          {"duration_ms", one.outcome.duration_ms ? Json(*one.outcome.duration_ms) : Json(nullptr)},
          {"recorded", std::move(recorded)},
          {"agrees", one.agrees ? Json(*one.agrees) : Json(nullptr)}};
}

std::string in_words(const Outcome& outcome) {
  if (outcome.status == OutcomeStatus::DryRun) return outcome.message.empty() ? "nothing to write" : "would write";
  return text_of(outcome.status);
}

void print_line(const Replayed& one, std::ostream& out) {
  const std::optional<Outcome>& then = one.recorded.outcome;
  std::array<char, 128> head{};
  (void)std::snprintf(head.data(), head.size(), "%8llu  %10.1f s  %-16s  recorded %-12s  %s",
                      static_cast<unsigned long long>(one.recorded.decision.seq), one.recorded.time_s,
                      in_words(one.outcome).c_str(), then ? text_of(then->status).c_str() : "unknown",
                      one.agrees ? (*one.agrees ? "agrees" : "DIFFERS") : "not compared");
  out << head.data() << '\n';
  for (const std::string_view line : split_lines(one.outcome.message)) out << "            " << line << '\n';
  if (one.outcome.status != OutcomeStatus::Unchanged) {
    for (const Reason& reason : one.recorded.decision.reasons) out << "            reason: " << reason.text << '\n';
  }
  if (one.agrees && !*one.agrees && !then->message.empty()) out << "            recorded: " << then->message << '\n';
  out << std::flush;  // at the pace of the record, whoever reads it waits for the next
}

}  // namespace

ReplayReport::ReplayReport(std::ostream& out, bool json, const Of& of) : out_(&out), json_(json) {
  if (!json_) return;
  std::string head = dumped({{"node", of.node}, {"file", of.file}, {"dry_run", of.dry_run}});
  head.pop_back();  // the brace: more follows
  out << head << R"(,"decisions":[)";
}

void ReplayReport::add(const Replayed& one) {
  if (json_) {
    *out_ << (decisions_ == 0 ? "\n" : ",\n") << dumped(json_of(one)) << std::flush;
  } else {
    print_line(one, *out_);
  }
  ++decisions_;
  ++(one.agrees ? (*one.agrees ? agreeing_ : differing_) : not_compared_);
}

void ReplayReport::finish(std::size_t unanswered, std::size_t damaged, bool stopped) {
  if (!json_) {
    *out_ << decisions_ << " decisions: " << agreeing_ << " agree, " << differing_ << " differ, " << not_compared_
          << " cannot be compared; " << unanswered << " intervals had no decision";
    if (damaged > 0) *out_ << "; " << damaged << " damaged lines were left out";
    *out_ << '\n';
    return;
  }
  const Json summary = {
      {"decisions", decisions_},  {"agree", agreeing_}, {"differ", differing_}, {"not_compared", not_compared_},
      {"unanswered", unanswered}, {"damaged", damaged}, {"stopped", stopped}};
  *out_ << "\n],\"summary\":" << dumped(summary) << "}\n";
}

}  // namespace osml::cli
