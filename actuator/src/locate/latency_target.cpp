#include "locate/latency_target.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/number.h"
#include "base/printable.h"
#include "domain/forms.h"
#include "locate/annotations.h"

namespace osml {

namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string_view>;

constexpr std::size_t longest_shown = 40;
constexpr std::size_t longest_token = 4096;
// An answer has a length that many tiny values may fill, and each of these takes memory and time.
constexpr std::size_t most_values = 400;  // of one object; what this agent reads has half of it
constexpr std::size_t most_labels = 16;   // of matchLabels, and of a metric
constexpr std::size_t most_expressions = 8;
constexpr std::size_t most_label_values = 16;

const Json* find(const Json& parent, const char* key) {
  const auto found = parent.is_object() ? parent.find(key) : parent.end();
  return parent.is_object() && found != parent.end() && !found->is_null() ? &*found : nullptr;
}

std::string text_of(const Json* value, std::size_t longest) {
  const auto* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  return text != nullptr && text->size() <= longest ? *text : std::string();
}

std::string listed(const Words& words) {
  std::string list;
  for (const std::string_view word : words) list.append(list.empty() ? "" : ", ").append(word);
  return list;
}

// The spec of one object; the first mistake counts.
class SpecReader {
 public:
  LatencyTarget target;

  void read(const Json* spec) {
    if (!is_mapping(spec, "spec")) return;
    know_only(*spec, "spec", {"selector", "container", "class", "service", "targetP99Ms", "latency"});
    read_selector(find(*spec, "selector"));
    for (const char* key : {"container", "class", "service"}) ask(key, find(*spec, key), std::string("spec.") + key);
    if (const Json* number = find(*spec, "targetP99Ms")) {
      if (!number->is_number()) return refuse("spec.targetP99Ms", number, "a number");
      target.asks["target-p99-ms"] = format_number(number->get<double>());
    }
    if (const Json* latency = find(*spec, "latency")) read_latency(*latency);
  }
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  void refuse(const std::string& path, const Json* value, const std::string& expected) {
    if (!why_.empty()) return;
    const std::string shown =
        value == nullptr ? "missing"
                         : printable(value->is_string() ? "'" + value->get<std::string>() + "'"
                                                        : value->dump(-1, ' ', false, Json::error_handler_t::replace),
                                     longest_shown);
    why_ = path + ": " + shown + ", expected " + expected;
  }
  bool is_mapping(const Json* value, const std::string& path) {
    const bool is = value != nullptr && value->is_object();
    if (!is) refuse(path, value, "a mapping");
    return is;
  }
  // Half of what somebody asked for is not what was asked for.
  void know_only(const Json& mapping, const std::string& path, const Words& known) {
    for (const auto& item : mapping.items()) {
      if (!why_.empty() || std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
      why_ = path + "." + printable(item.key(), longest_shown) +
             " is not known to this version of the agent, expected " + listed(known);
    }
  }
  // What a text may say is the reader's of annotations to know.
  void ask(const std::string& key, const Json* value, const std::string& path) {
    if (value == nullptr) return;
    const auto* text = value->get_ptr<const std::string*>();
    if (text == nullptr || text->size() > longest_pod_text) {
      return refuse(path, value, "a text of at most " + std::to_string(longest_pod_text) + " bytes");
    }
    target.asks[key] = *text;
  }

  void read_selector(const Json* selector) {
    if (!is_mapping(selector, "spec.selector")) return;
    know_only(*selector, "spec.selector", {"matchLabels", "matchExpressions"});
    if (const Json* labels = find(*selector, "matchLabels")) read_labels(*labels);
    if (const Json* rules = find(*selector, "matchExpressions")) read_expressions(*rules);
    if (target.selector.empty()) refuse("spec.selector", selector, "at least one label, since it selects pods");
  }
  void read_labels(const Json& labels) {
    const std::string path = "spec.selector.matchLabels";
    const bool good = labels.is_object() && labels.size() <= most_labels &&
                      std::all_of(labels.begin(), labels.end(), [](const Json& one) { return one.is_string(); });
    if (!good) return refuse(path, &labels, "at most " + std::to_string(most_labels) + " labels such as app: web");
    for (const auto& item : labels.items())
      add_rule(path, item.value(), {item.key(), LabelOperator::In, {item.value()}});
  }
  void read_expressions(const Json& rules) {
    if (!rules.is_array() || rules.size() > most_expressions) {
      return refuse("spec.selector.matchExpressions", &rules,
                    "a list of at most " + std::to_string(most_expressions) + " rules");
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
      read_expression(rules[i], "spec.selector.matchExpressions[" + std::to_string(i) + "]");
    }
  }
  void read_expression(const Json& rule, const std::string& path) {
    if (!is_mapping(&rule, path)) return;
    know_only(rule, path, {"key", "operator", "values"});
    const Json* word = find(rule, "operator");
    const auto how = label_operator(text_of(word, longest_shown));
    if (!how) return refuse(path + ".operator", word, listed({label_operators.begin(), label_operators.end()}));
    const Json* values = find(rule, "values");
    const bool good = values == nullptr ||
                      (values->is_array() && values->size() <= most_label_values &&
                       std::all_of(values->begin(), values->end(), [](const Json& one) { return one.is_string(); }));
    const bool given = values != nullptr && !values->empty();
    if (!good || given != takes_values(*how)) {
      return refuse(path + ".values", values,
                    takes_values(*how) ? "1 to " + std::to_string(most_label_values) + " values" : "no values");
    }
    LabelRule read{text_of(find(rule, "key"), longest_pod_text), *how, {}};
    if (given) read.values = values->get<std::vector<std::string>>();
    add_rule(path, rule, std::move(read));
  }
  void add_rule(const std::string& path, const Json& value, LabelRule rule) {
    const bool good = is_label_key(rule.key) && std::all_of(rule.values.begin(), rule.values.end(), is_label_value);
    if (!good) return refuse(path, &value, "keys and values that labels of Kubernetes may have");
    target.selector.push_back(std::move(rule));
  }

  void read_latency(const Json& latency) {
    if (!is_mapping(&latency, "spec.latency")) return;
    know_only(latency, "spec.latency", {"prometheus", "datagram"});
    const Json* prometheus = find(latency, "prometheus");
    const Json* datagram = find(latency, "datagram");
    if ((prometheus == nullptr) == (datagram == nullptr)) {
      return refuse("spec.latency", &latency, "exactly one of prometheus, datagram");
    }
    if (prometheus != nullptr) return read_prometheus(*prometheus);
    if (!is_mapping(datagram, "spec.latency.datagram")) return;
    if (!datagram->empty()) refuse("spec.latency.datagram", datagram, "{}");
    target.asks["latency"] = "datagram";
  }
  void read_prometheus(const Json& prometheus) {
    const std::string path = "spec.latency.prometheus";
    if (!is_mapping(&prometheus, path)) return;
    know_only(prometheus, path, {"port", "path", "metric", "labels", "unit"});
    const Json* port = find(prometheus, "port");
    const bool is_port = port != nullptr && port->is_number_unsigned() && *port >= 1 && *port <= 65535;
    if (!is_port) refuse(path + ".port", port, "a port from 1 to 65535");
    const Json* place = find(prometheus, "path");
    const std::string text = place == nullptr ? "/metrics" : text_of(place, longest_pod_text);
    if (!is_metrics_path(text)) refuse(path + ".path", place, "a path such as /metrics");
    if (!why_.empty()) return;
    target.asks["latency"] = "prometheus:" + std::to_string(port->get<unsigned>()) + text;
    ask("latency-metric", find(prometheus, "metric"), path + ".metric");
    ask("latency-unit", find(prometheus, "unit"), path + ".unit");
    if (const Json* labels = find(prometheus, "labels")) read_metric_labels(*labels);
  }
  // A comma in a value would begin another label, and a '=' in a name a value.
  void read_metric_labels(const Json& labels) {
    bool good = labels.is_object() && labels.size() <= most_labels;
    std::string joined;
    for (auto item = labels.begin(); good && item != labels.end(); ++item) {
      const auto* text = item->get_ptr<const std::string*>();
      good = is_metric_label(item.key()) && text != nullptr && text->find(',') == std::string::npos;
      if (good) joined.append(joined.empty() ? "" : ",").append(item.key()).append("=").append(*text);
    }
    if (!good || joined.size() > longest_pod_text) {
      return refuse("spec.latency.prometheus.labels", &labels,
                    "at most " + std::to_string(most_labels) +
                        " labels such as handler: /search, names of letters, digits and _, values without commas, of " +
                        std::to_string(longest_pod_text) + " bytes in all");
    }
    if (!joined.empty()) target.asks["latency-labels"] = joined;
  }

  std::string why_;
};

// What is not named here is dropped while reading: of metadata all but names, of everything the depth below labels.
// Each object is handed on as soon as it is read and then dropped too, so that no more than one is there.
class Filter {
 public:
  // `take` gets an object, and whether it had too many values, of which those behind are missing.
  explicit Filter(std::function<void(const Json&, bool)> take) : take_(std::move(take)) {}

  bool keeps(int depth, Json::parse_event_t event, const Json& parsed) {
    const bool is_key = event == Json::parse_event_t::key;
    const bool opens = event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
    const bool closes = event == Json::parse_event_t::array_end || event == Json::parse_event_t::object_end;
    // The parser tells what is below a key that is dropped, too: it is neither kept nor counted.
    if ((is_key && depth <= dropped_) || (closes && depth < dropped_)) dropped_ = none;
    if (dropped_ != none) return false;
    if (opens && depth > deepest) return false;  // what is so deep would take the stack
    if (is_key) {
      const bool kept = keeps_key(depth, parsed.get_ref<const std::string&>());
      if (!kept) dropped_ = depth;
      return kept;
    }
    const bool is_item = in_items_ && depth == items_of_list;
    if (is_item && (event == Json::parse_event_t::value || event == Json::parse_event_t::array_start)) {
      has_others_ = true;
      return false;
    }
    if (is_item && event == Json::parse_event_t::object_end) {
      if (++objects_ <= most_targets) take_(parsed, values_ > most_values);
      values_ = 0;
      return false;
    }
    return closes || ++values_ <= most_values;
  }
  [[nodiscard]] bool full() const { return objects_ > most_targets; }
  // Whether there were items that are no objects.
  [[nodiscard]] bool has_others() const { return has_others_; }

 private:
  bool keeps_key(int depth, const std::string& key) {
    if (depth == in_list) {
      in_items_ = key == "items";
      return in_items_ || key == "kind" || key == "metadata";
    }
    if (depth == in_metadata_of_list) return key == "continue";
    if (depth == in_item) {
      in_spec_ = key == "spec";
      return in_spec_ || key == "apiVersion" || key == "kind" || key == "metadata";
    }
    return in_spec_ ? depth <= deepest : depth == below_item && (key == "name" || key == "namespace");
  }

  static constexpr int none = -1;
  static constexpr int in_list = 1;
  static constexpr int in_metadata_of_list = 2;
  static constexpr int items_of_list = 2;
  static constexpr int in_item = 3;
  static constexpr int below_item = 4;
  static constexpr int deepest = 7;  // spec.selector.matchExpressions[].key

  std::function<void(const Json&, bool)> take_;
  int dropped_ = none;  // the depth of a key of which nothing is kept
  bool in_items_ = false;
  bool in_spec_ = false;
  bool has_others_ = false;
  std::size_t objects_ = 0;
  std::size_t values_ = 0;  // of the list itself, or of the object that is read
};

// Why the object as a whole is not what this agent reads; empty where it is.
std::string strange(const Json& item) {
  const Json* api = find(item, "apiVersion");
  const Json* kind = find(item, "kind");
  const bool same = (api == nullptr || *api == target_api) && (kind == nullptr || *kind == target_kind);
  if (same) return {};
  return "it is a " + printable(text_of(kind, longest_pod_text), longest_shown) + " of " +
         printable(text_of(api, longest_pod_text), longest_shown) + ", expected a " + target_kind + " of " +
         target_api + ", which this version of the agent reads";
}

// Base 64 for URLs: it goes into the next one as it is.
bool is_token(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '=';
  });
}

void add(const Json& item, bool too_large, const DiscoverConfig& discover, TargetPage& page) {
  const Json* metadata = find(item, "metadata");
  if (metadata == nullptr) return;
  SpecReader reader;
  reader.target.name_space = text_of(find(*metadata, "namespace"), longest_pod_text);
  reader.target.name = text_of(find(*metadata, "name"), longest_pod_text);
  const bool named = is_namespace(reader.target.name_space) && is_name_in_dns(reader.target.name);
  if (!named || !may_ask(discover, reader.target.name_space)) return;
  std::string why = too_large ? "it has more than " + std::to_string(most_values) + " values" : strange(item);
  if (why.empty()) {
    reader.read(find(item, "spec"));
    why = reader.why();
  }
  if (why.empty()) {
    page.targets.push_back(std::move(reader.target));
  } else {
    page.refused[reader.target.full_name()] = why;
  }
}

}  // namespace

Result<TargetPage> parse_targets(std::string_view text, const DiscoverConfig& discover) {
  TargetPage page;
  Filter filter([&](const Json& item, bool too_large) { add(item, too_large, discover, page); });
  const Json::parser_callback_t keep = [&](int depth, Json::parse_event_t event, Json& parsed) {
    return filter.keeps(depth, event, parsed);
  };
  const Json document = Json::parse(text.begin(), text.end(), keep, false);
  if (filter.full()) {
    return Error{ErrorKind::Io, "expected a list of at most " + std::to_string(most_targets) + " objects", 0};
  }
  const Json* items = document.is_discarded() ? nullptr : find(document, "items");
  const bool is_list = !document.is_discarded() && document.is_object() && !filter.has_others() &&
                       text_of(find(document, "kind"), longest_shown) == std::string(target_kind) + "List" &&
                       (items == nullptr || items->is_array());
  if (!is_list) return Error{ErrorKind::Io, std::string("expected a list of ") + target_kind + "s as JSON", 0};
  if (const Json* metadata = find(document, "metadata"))
    page.next = text_of(find(*metadata, "continue"), longest_token);
  if (!is_token(page.next)) return Error{ErrorKind::Io, "expected a list that can be continued", 0};
  return page;
}

}  // namespace osml
