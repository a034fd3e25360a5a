#include "locate/selector.h"

#include <algorithm>

namespace osml {

namespace {

bool holds(const LabelRule& rule, const std::map<std::string, std::string>& labels) {
  const auto label = labels.find(rule.key);
  const bool there = label != labels.end();
  const auto is_listed = [&] {
    return std::find(rule.values.begin(), rule.values.end(), label->second) != rule.values.end();
  };
  switch (rule.how) {
    case LabelOperator::In:
      return there && is_listed();
    case LabelOperator::NotIn:
      return !there || !is_listed();  // as Kubernetes means it
    case LabelOperator::Exists:
      return there;
    case LabelOperator::DoesNotExist:
      return !there;
  }
  return false;
}

}  // namespace

std::optional<LabelOperator> label_operator(std::string_view word) {
  const auto* const found = std::find(label_operators.begin(), label_operators.end(), word);
  if (found == label_operators.end()) return std::nullopt;
  return static_cast<LabelOperator>(found - label_operators.begin());
}

bool selects(const LabelSelector& selector, const std::map<std::string, std::string>& labels) {
  return !selector.empty() &&
         std::all_of(selector.begin(), selector.end(), [&](const LabelRule& rule) { return holds(rule, labels); });
}

}  // namespace osml
