// Which pods are meant by their labels: LabelSelector of Kubernetes.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osml {

enum class LabelOperator { In, NotIn, Exists, DoesNotExist };
inline constexpr std::array<std::string_view, 4> label_operators = {"In", "NotIn", "Exists", "DoesNotExist"};
std::optional<LabelOperator> label_operator(std::string_view word);
// Whether values belong to it.
inline bool takes_values(LabelOperator how) { return how == LabelOperator::In || how == LabelOperator::NotIn; }

// One of matchExpressions; of matchLabels each is an In with one value.
struct LabelRule {
  std::string key;
  LabelOperator how = LabelOperator::In;
  std::vector<std::string> values = {};

  bool operator==(const LabelRule&) const = default;
};

// All of them hold.
using LabelSelector = std::vector<LabelRule>;

// None is selected by an empty selector.
bool selects(const LabelSelector& selector, const std::map<std::string, std::string>& labels);

}  // namespace osml
