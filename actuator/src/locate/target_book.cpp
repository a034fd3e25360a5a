#include "locate/target_book.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "locate/annotations.h"

namespace osml {

namespace {

using Json = nlohmann::json;

constexpr int kept_version = 1;
// No namespace takes the memory or the time of the others.
constexpr std::size_t most_of_a_namespace = 256;
constexpr std::size_t longest_of_a_namespace = std::size_t{64} << 10U;  // bytes of text
constexpr std::size_t longest_refusal = 400;
constexpr std::size_t most_refusals_told = 8;

auto by_name(const LatencyTarget& target) { return std::tie(target.name_space, target.name); }
bool is_before(const LatencyTarget& a, const LatencyTarget& b) { return by_name(a) < by_name(b); }

bool is_in(const std::string& full_name, const std::string& name_space) {
  return name_space.empty() || full_name.starts_with(name_space + "/");
}

std::size_t length_of(const LatencyTarget& target) {
  std::size_t bytes = target.name_space.size() + target.name.size();
  for (const LabelRule& rule : target.selector) {
    bytes += rule.key.size();
    for (const std::string& value : rule.values) bytes += value.size();
  }
  for (const auto& [key, value] : target.asks) bytes += key.size() + value.size();
  return bytes;
}

// Of a list in order.
void leave_out_the_most(TargetPage& list) {
  std::size_t count = 0;
  std::size_t bytes = 0;
  bool full = false;
  std::string name_space;
  std::erase_if(list.targets, [&](const LatencyTarget& one) {
    if (one.name_space != std::exchange(name_space, one.name_space)) {
      count = bytes = 0;
      full = false;
    }
    bytes += length_of(one);
    const bool fits = ++count <= most_of_a_namespace && bytes <= longest_of_a_namespace;
    if (!fits && !std::exchange(full, true)) {
      list.refused[one.full_name()] = "namespace " + name_space + " has more than " +
                                      std::to_string(most_of_a_namespace) + " of them, or more than " +
                                      std::to_string(longest_of_a_namespace) +
                                      " bytes in them; this one and those behind it are left out";
    }
    return full;
  });
}

Json to_json(const LatencyTarget& target) {
  Json rules = Json::array();
  for (const LabelRule& rule : target.selector) {
    rules.push_back({{"key", rule.key},
                     {"operator", label_operators.at(static_cast<std::size_t>(rule.how))},
                     {"values", rule.values}});
  }
  return {{"namespace", target.name_space}, {"name", target.name}, {"selector", rules}, {"asks", target.asks}};
}

// Throws nlohmann's exceptions, which read() catches.
LatencyTarget target_of(const Json& document) {
  LatencyTarget target{document.at("namespace").get<std::string>(), document.at("name").get<std::string>(), {}, {}};
  for (const Json& rule : document.at("selector")) {
    const auto how = label_operator(rule.at("operator").get<std::string>());
    if (!how) throw Json::other_error::create(0, "unknown operator", &rule);
    target.selector.push_back(
        {rule.at("key").get<std::string>(), *how, rule.at("values").get<std::vector<std::string>>()});
  }
  target.asks = document.at("asks").get<std::map<std::string, std::string>>();
  return target;
}

// Whoever makes LatencyTargets can make many: a bounded number of lines.
void tell_refused(const std::map<std::string, std::string>& now, const std::map<std::string, std::string>& before) {
  std::size_t lines = 0;
  for (const auto& [name, why] : now) {
    const auto told = before.find(name);
    if (told != before.end() && told->second == why) continue;
    if (++lines > most_refusals_told) continue;
    spdlog::warn("{} {} is refused: {}", target_kind, name, printable(why, longest_refusal));
  }
  if (lines > most_refusals_told) spdlog::warn("{} more {}s are refused", lines - most_refusals_told, target_kind);
}

}  // namespace

bool TargetBook::take(TargetNews news) {
  TargetPage& list = news.list;
  std::stable_sort(list.targets.begin(), list.targets.end(), is_before);
  // A list that changed between two pages may name one twice.
  const auto twice = std::unique(list.targets.begin(), list.targets.end(),
                                 [](const auto& a, const auto& b) { return by_name(a) == by_name(b); });
  list.targets.erase(twice, list.targets.end());
  leave_out_the_most(list);
  const auto is_of_news = [&](const LatencyTarget& one) {
    return news.name_space.empty() || one.name_space == news.name_space;
  };
  const auto is_refused_of_news = [&](const auto& one) { return is_in(one.first, news.name_space); };
  std::map<std::string, std::string> refused_before;
  std::copy_if(refused_.begin(), refused_.end(), std::inserter(refused_before, refused_before.end()),
               is_refused_of_news);
  // In order, a namespace is one piece.
  const auto first = std::find_if(targets_.begin(), targets_.end(), is_of_news);
  const auto last = std::find_if_not(first, targets_.end(), is_of_news);
  if (std::equal(first, last, list.targets.begin(), list.targets.end()) && refused_before == list.refused) return false;
  tell_refused(list.refused, refused_before);
  targets_.erase(first, last);
  std::move(list.targets.begin(), list.targets.end(), std::back_inserter(targets_));
  std::sort(targets_.begin(), targets_.end(), is_before);
  std::erase_if(refused_, is_refused_of_news);
  refused_.merge(list.refused);
  targets_.shrink_to_fit();
  chosen_.clear();
  return true;
}

void TargetBook::see_pods(std::uint64_t told) {
  if (told == told_) return;
  told_ = told;
  chosen_.clear();
}

const std::vector<const LatencyTarget*>& TargetBook::selecting(const Pod& pod) {
  const auto [chosen, is_new] = chosen_.try_emplace(pod.uid);
  if (!is_new) return chosen->second;
  auto one = std::lower_bound(targets_.begin(), targets_.end(), LatencyTarget{pod.name_space, "", {}}, is_before);
  for (; one != targets_.end() && one->name_space == pod.name_space; ++one) {
    if (selects(one->selector, pod.labels)) chosen->second.push_back(&*one);
  }
  return chosen->second;
}

std::string TargetBook::text() const {
  Json document = {{"version", kept_version}, {"targets", Json::array()}, {"refused", refused_}};
  Json& list = document["targets"];
  for (const LatencyTarget& one : targets_) list.push_back(to_json(one));
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status TargetBook::read(std::string_view text, const DiscoverConfig& discover) {
  try {
    const Json document = Json::parse(text.begin(), text.end());
    if (document.at("version").get<int>() != kept_version)
      return Error{ErrorKind::Input, "another version of the format", 0};
    TargetNews news;
    for (const Json& one : document.at("targets")) news.list.targets.push_back(target_of(one));
    news.list.refused = document.at("refused").get<std::map<std::string, std::string>>();
    // The operator may have taken a namespace out of the list since.
    std::erase_if(news.list.targets, [&](const LatencyTarget& one) { return !may_ask(discover, one.name_space); });
    std::erase_if(news.list.refused,
                  [&](const auto& one) { return !may_ask(discover, one.first.substr(0, one.first.find('/'))); });
    take(std::move(news));
    return done();
  } catch (const Json::exception& problem) {
    return Error{ErrorKind::Input, problem.what(), 0};
  }
}

}  // namespace osml
