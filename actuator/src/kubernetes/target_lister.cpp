#include "kubernetes/target_lister.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/printable.h"

namespace osml {

namespace {

constexpr double longest_pause_s = 60;  // changes shall not wait for long after the API server came back
constexpr double longest_first_s = 10;  // a new node shall not wait for its first list
constexpr std::size_t longest_complaint = 400;
// Of one list.
constexpr unsigned most_pages = 16;
// The API server says so while it starts, too.
constexpr unsigned surely_not_there = 3;

std::vector<std::string> namespaces_of(const DiscoverConfig& discover) {
  const std::vector<std::string>& names = discover.namespaces;
  if (std::find(names.begin(), names.end(), "*") != names.end()) return {""};
  return names;
}

// resourceVersion=0: from the cache, so that many nodes cost the store behind it nothing. Such an answer may be whole
// whatever the limit is.
std::string path_of(const std::string& name_space, const std::string& next) {
  std::string path = std::string("/apis/") + target_api + "/";
  if (!name_space.empty()) path += "namespaces/" + name_space + "/";
  return path + "latencytargets?limit=500&" + (next.empty() ? "resourceVersion=0" : "continue=" + next);
}

}  // namespace

TargetLister::TargetLister(const Config& config, double now_s)
    : discover_(config.kubelet.discover),
      time_scale_(config.time_scale),
      namespaces_(namespaces_of(discover_)),
      server_(config.kubernetes, ApiUse::LatencyTargets),
      lane_(config.node + "/latencytargets", longest_pause_s),
      due_s_(now_s + phase_of(config.node + "/latencytargets") *
                         std::min(discover_.latency_targets_every_s, longest_first_s)) {}

void TargetLister::see(double now_s) {
  if (!server_.busy() && now_s >= due_s_ && lane_.due(now_s)) begin(now_s);
}

void TargetLister::begin(double now_s) {
  due_s_ = now_s + discover_.latency_targets_every_s;
  at_ = 0;
  whole_ = true;
  some_came_ = false;
  gathered_ = {};
  pages_ = 0;
  told_.clear();
  send(now_s);
}

void TargetLister::send(double now_s) {
  const Status started = server_.start("GET", path_of(name_space(), gathered_.next), {});
  if (!started) (void)fail({ApiResult::Failed, 0, started.error().message}, now_s);
}

void TargetLister::follow(double now_s) {
  gathered_ = {};
  pages_ = 0;
  if (++at_ < namespaces_.size()) return send(now_s);
  if (some_came_) {
    (void)lane_.succeeded();
  } else {
    (void)lane_.failed(now_s, 0, "");
  }
  counts_.up = whole_;
  if (whole_ && std::exchange(complained_, false)) spdlog::info("the API server tells {}s again", target_kind);
}

std::vector<TargetNews> TargetLister::carry(double now_s) {
  const auto answer = server_.progress();
  return answer ? settle(*answer, now_s) : std::vector<TargetNews>();
}

std::vector<TargetNews> TargetLister::settle(const ApiAnswer& answer, double now_s) {
  return answer.result == ApiResult::Written ? take(answer.list, now_s) : fail(answer, now_s);
}

std::vector<TargetNews> TargetLister::take(const HttpAnswer& answer, double now_s) {
  auto page = parse_targets(answer.body, discover_);
  if (!page) {
    return fail({ApiResult::Failed, answer.status, page.error().message + ", got " + describe(answer)}, now_s);
  }
  not_there_ = 0;
  std::move(page->targets.begin(), page->targets.end(), std::back_inserter(gathered_.targets));
  gathered_.refused.merge(page->refused);
  gathered_.next = std::move(page->next);
  if (gathered_.targets.size() + gathered_.refused.size() > most_targets || ++pages_ > most_pages) {
    return fail({ApiResult::Failed, answer.status,
                 "the list has more than " + std::to_string(most_targets) + " objects or " +
                     std::to_string(most_pages) + " pages; name the namespaces in kubelet.discover.namespaces"},
                now_s);
  }
  ++counts_.good;
  if (!gathered_.next.empty()) {
    send(now_s);
    return {};
  }
  complaints_.erase(name_space());
  some_came_ = true;
  std::vector<TargetNews> news;
  news.push_back({name_space(), std::move(gathered_)});
  follow(now_s);
  return news;
}

std::vector<TargetNews> TargetLister::fail(const ApiAnswer& answer, double now_s) {
  constexpr long forbidden = 403;
  constexpr long not_there = 404;
  ++counts_.failed;
  counts_.up = false;
  complain(answer);
  whole_ = false;
  // What is wrong with this list alone keeps nobody from the next namespace: a right, or what somebody put into it.
  constexpr long good = 200;
  if (answer.status == forbidden || answer.status == good || answer.too_long) {
    follow(now_s);
    return {};
  }
  (void)lane_.failed(now_s, answer.retry_after_s * time_scale_, "");
  due_s_ = now_s;
  first_ = (first_ + at_ + 1) % namespaces_.size();  // one that always fails keeps nobody behind it from its turn
  at_ = 0;
  gathered_ = {};
  not_there_ = answer.status == not_there ? not_there_ + 1 : 0;
  std::vector<TargetNews> news;
  if (not_there_ < surely_not_there) return news;
  if (not_there_ == surely_not_there) {
    spdlog::info("the API server does not know {}s, so none is in force from now on", target_kind);
  }
  for (const std::string& name : namespaces_) news.push_back({name, {}});
  return news;
}

// Of a namespace not the same twice, and of a round each cause once.
void TargetLister::complain(const ApiAnswer& answer) {
  const std::string what = answer.cause();
  if (std::exchange(complaints_[name_space()], what) == what || !told_.insert(what).second) return;
  complained_ = true;
  spdlog::warn("the API server does not tell {}s; those that are known stay in force: {}", target_kind,
               printable(answer.why, longest_complaint));
}

std::vector<TargetNews> TargetLister::wait(double now_s) {
  std::vector<TargetNews> all;
  begin(now_s);
  while (server_.busy()) {
    std::vector<TargetNews> news = settle(server_.wait(), now_s);
    std::move(news.begin(), news.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace osml
