#include "plan/group_sharing.h"

#include <algorithm>
#include <array>
#include <vector>

#include "resctrl/group.h"

namespace osml {

namespace {

using Portion = std::array<std::string, 3>;  // ways, throttle, who shares it with nobody

bool has_group(const Wanted& wanted) {
  const auto group = wanted.find(Aspect::Group);
  return group != wanted.end() && !group->second.empty();
}

Portion portion_of(const Wanted& wanted) {
  const auto value = [&](Aspect aspect) {
    const auto found = wanted.find(aspect);
    return found == wanted.end() ? std::string() : found->second;
  };
  return {value(Aspect::Ways), value(Aspect::Mba), {}};
}

std::map<Portion, std::vector<std::string>> equals(const std::map<std::string, Wanted>& services,
                                                   const std::set<std::string>& alone) {
  std::map<Portion, std::vector<std::string>> found;
  for (const auto& [name, wanted] : services) {
    if (!has_group(wanted)) continue;
    Portion portion = portion_of(wanted);
    if (alone.contains(name)) portion.back() = name;
    found[portion].push_back(name);
  }
  return found;
}

}  // namespace

unsigned needed_groups(const std::map<std::string, Wanted>& services, const std::set<std::string>& alone) {
  return static_cast<unsigned>(equals(services, alone).size());
}

void share_groups(std::map<std::string, Wanted>& services, GroupLimit limit, const std::set<std::string>& alone,
                  const std::set<std::string>& existing) {
  const auto wanting =
      std::count_if(services.begin(), services.end(), [](const auto& one) { return has_group(one.second); });
  if (!limit || static_cast<unsigned>(wanting) <= *limit) return;
  for (const auto& [portion, names] : equals(services, alone)) {
    const auto first =
        std::find_if(names.begin(), names.end(), [&](const auto& name) { return existing.contains(name); });
    const std::string host = first == names.end() ? names.front() : *first;
    for (const std::string& name : names) {
      if (name == host) continue;
      Wanted& wanted = services.at(name);
      wanted.erase(Aspect::Ways);
      wanted.erase(Aspect::Mba);
      wanted[Aspect::Group] = "";
      wanted[Aspect::Tasks] = resctrl::group_name(host);
    }
  }
}

}  // namespace osml
