#include "replay/record_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "domain/forms.h"
#include "domain/json.h"
#include "domain/json_reader.h"
#include "domain/keys.h"

namespace osml {

namespace {

using nlohmann::json;

constexpr const char* observation_key = "observation";
constexpr const char* decision_key = "decision";
constexpr std::size_t longest_record = std::size_t{4} << 20U;
constexpr std::size_t most_complaints = 20;

bool is_observation_schema(std::string_view text) { return text == key::observation_schema; }

bool is_outcome(std::string_view text) { return outcome_status(text).has_value(); }

std::optional<Outcome> read_outcome(JsonReader& observation) {
  const json* object = observation.optional_object(key::outcome);
  if (object == nullptr) return std::nullopt;
  JsonReader reader(*object, observation.path(key::outcome), observation.error());
  reader.refuse_unknown({key::seq, key::status, key::message, key::duration_ms});
  Outcome outcome;
  outcome.seq = reader.integer(key::seq, 0, UINT64_MAX);
  const std::string status =
      reader.text(key::status, is_outcome, "applied, unchanged, refused, rolled_back, failed or dry_run");
  outcome.status = outcome_status(status).value_or(OutcomeStatus::Failed);
  outcome.message = reader.optional_text(key::message, any_text, "a text").value_or("");
  return outcome;
}

double read_time(JsonReader& observation, const json& object) {
  const auto found = object.find(key::time_s);
  if (found != object.end() && found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
  observation.fail(observation.path(key::time_s), found == object.end() ? json() : *found, "seconds of node time");
  return 0;
}

struct Text {
  json document;  // discarded where it is none
  bool half;      // the first part of a line: the parser fails where the text ends
};

Text read_json(std::string_view text) {
  try {
    return {json::parse(text), false};
  } catch (const json::parse_error& problem) {
    return {json(json::value_t::discarded), text.starts_with('{') && problem.byte > text.size()};
  } catch (const json::exception&) {
    return {json(json::value_t::discarded), false};  // a number beyond all numbers
  }
}

bool is_configured(const Config& config, const std::string& service) {
  return std::any_of(config.services.begin(), config.services.end(),
                     [&](const ServiceConfig& one) { return one.spec.name == service; });
}

}  // namespace

RecordFile::RecordFile(fs::path path, std::ifstream stream, const Config& config, SeqRange range)
    : path_(std::move(path)), stream_(std::move(stream)), text_(longest_record + 2), config_(&config), range_(range) {}

Result<RecordFile> RecordFile::open(const fs::path& path, const Config& config, SeqRange range) {
  if (std::error_code code; !fs::is_regular_file(path, code)) {
    return Error{ErrorKind::Input, path.string() + ": no such file, expected a record of osml-agent run --record"};
  }
  std::ifstream stream(path);
  if (!stream) return Error{ErrorKind::Input, path.string() + ": cannot be read; check the permissions of the file"};
  return RecordFile(path, std::move(stream), config, range);
}

// The service of the decision that the configuration does not have.
std::optional<std::string> RecordFile::stranger(const Decision& decision) const {
  for (const Assignment& one : decision.assignments) {
    if (!is_configured(*config_, one.service)) return one.service;
  }
  return std::nullopt;
}

Result<RecordFile::Line> RecordFile::parse(const json& document) const {
  const auto wrong = [](const std::string& what) { return Error{ErrorKind::Input, what, 0}; };
  if (document.is_discarded()) return wrong("not valid JSON, expected a line of osml-agent run --record");
  std::optional<Error> error;
  JsonReader reader(document, "", error);
  reader.refuse_unknown({observation_key, decision_key});
  const json& object = reader.object(observation_key);
  if (error) return *error;
  JsonReader observation(object, observation_key, error);
  observation.optional_text(key::schema, is_observation_schema, key::observation_schema);
  const std::string node = observation.text(key::node, is_name, "a name (letters, digits, '_', '.', '-')");
  Line line;
  line.number = number_;
  line.seq = observation.integer(key::seq, 0, UINT64_MAX);
  line.time_s = read_time(observation, object);
  line.outcome = read_outcome(observation);
  if (!document.contains(decision_key)) {
    reader.fail(decision_key, json(), "a decision, or null if the server did not answer");
  }
  if (error) return *error;
  if (node != config_->node) {
    return wrong("observation.node is '" + node + "', expected '" + config_->node +
                 "', the node of the configuration; use the configuration of the recorded node");
  }
  const json& decided = document[decision_key];
  if (decided.is_null() || !range_.holds(line.seq)) return line;
  auto decision = parse_decision(decided, decision_key);
  if (!decision) return decision.error();
  if (decision->node != node || decision->seq != line.seq) {
    return wrong("decision.seq " + std::to_string(decision->seq) + " of node '" + decision->node +
                 "' answers another observation, expected seq " + std::to_string(line.seq) + " of '" + node + "'");
  }
  if (const auto name = stranger(*decision)) {
    return wrong("decision.assignments: service '" + *name + "' is not in the configuration; add it to services");
  }
  line.decision = std::move(*decision);
  return line;
}

// None at the end, also of what can't be read, after the error.
Result<std::optional<std::string_view>> RecordFile::read_text() {
  if (stream_.bad()) return std::optional<std::string_view>();
  stream_.getline(text_.data(), static_cast<std::streamsize>(text_.size()));
  const auto taken = static_cast<std::size_t>(stream_.gcount());
  if (stream_.bad()) return Error{ErrorKind::Io, "the rest of the file cannot be read; check the disk", 0};
  if (stream_.eof()) {
    if (taken == 0) return std::optional<std::string_view>();
    if (taken <= longest_record) return std::optional(std::string_view(text_.data(), taken));
  } else if (!stream_.fail() && taken - 1 <= longest_record) {
    return std::optional(std::string_view(text_.data(), taken - 1));  // without the line end
  } else if (stream_.fail()) {
    stream_.clear();
    stream_.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return Error{ErrorKind::Input, "the line is longer than 4 MiB, expected one interval", 0};
}

Result<std::optional<RecordFile::Line>> RecordFile::read_line() {
  bool behind_half = false;
  while (true) {
    const auto text = read_text();
    if (text && !*text) return std::optional<Line>();
    ++number_;
    const Text read = text ? read_json(**text) : Text{json(), false};
    if (read.half && !stream_.eof()) {
      ++damaged_;
      behind_half = true;
      continue;
    }
    auto line = text ? parse(read.document) : Result<Line>(text.error());
    if (!line) return line.error().wrap(path_.string() + ":" + std::to_string(number_));
    if (behind_half) line->outcome.reset();
    return std::optional<Line>(std::move(*line));
  }
}

Result<std::optional<RecordedDecision>> RecordFile::next() {
  while (true) {
    if (!ahead_) {
      auto first = read_line();
      if (!first) return first.error();
      if (!*first) return std::optional<RecordedDecision>();
      ahead_ = std::move(*first);
    }
    Line current = std::move(*ahead_);
    ahead_.reset();
    auto following = read_line();
    if (!following) return following.error();
    ahead_ = std::move(*following);
    if (!range_.holds(current.seq)) continue;
    if (!current.decision) {
      ++unanswered_;
      continue;
    }
    RecordedDecision found{current.number, current.time_s, std::move(*current.decision), std::nullopt};
    if (ahead_ && ahead_->outcome && ahead_->outcome->seq == found.decision.seq) found.outcome = ahead_->outcome;
    return std::optional<RecordedDecision>(std::move(found));
  }
}

Result<std::size_t> check_record(const fs::path& path, const Config& config, SeqRange range) {
  auto file = RecordFile::open(path, config, range);
  if (!file) return file.error();
  std::size_t decisions = 0;
  std::size_t complaints = 0;
  std::string text;
  while (true) {
    const auto found = file->next();
    if (found) {
      if (!*found) break;
      ++decisions;
      continue;
    }
    if (++complaints <= most_complaints) text += (text.empty() ? "" : "\n") + found.error().message;
  }
  if (complaints > most_complaints) text += "\nand " + std::to_string(complaints - most_complaints) + " more";
  if (!text.empty()) return Error{ErrorKind::Input, text};
  if (decisions == 0) {
    return Error{ErrorKind::Input, path.string() + ": no decision" +
                                       (range.from || range.to ? " from --from to --to" : " in the file") + " (" +
                                       std::to_string(file->unanswered()) +
                                       " intervals without an answer), expected at least one"};
  }
  return decisions;
}

}  // namespace osml
