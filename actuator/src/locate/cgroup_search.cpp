#include "locate/cgroup_search.h"

#include <algorithm>
#include <array>
#include <functional>

namespace osml {

namespace {

constexpr std::array<const char*, 5> member_controllers = {"cpuset", "cpu", "cpuacct", "memory", "pids"};
constexpr std::size_t most_directories = 4096;  // of one search
constexpr std::size_t deepest = 8;

bool is_slice(std::string_view name) { return name.ends_with(".slice"); }

std::vector<std::string> directories(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(path, code), last; !code && it != last; it.increment(code)) {
    std::error_code problem;
    if (it->is_directory(problem) && !it->is_symlink(problem)) names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path below(const std::string& path, const std::string& name) { return path.empty() ? name : path + "/" + name; }

// Breadth first. `visit` says whether to go on below this directory.
void walk(const fs::path& root, const std::function<bool(const std::string& path, const std::string& name)>& visit) {
  std::vector<std::string> level{""};
  std::size_t seen = 0;
  for (std::size_t depth = 0; depth < deepest && !level.empty(); ++depth) {
    std::vector<std::string> next;
    for (const std::string& path : level) {
      for (const std::string& name : directories(root / path)) {
        if (++seen > most_directories) return;
        const std::string child = below(path, name).string();
        if (visit(child, name)) next.push_back(child);
      }
    }
    level = std::move(next);
  }
}

// Of a pod: "pod1234" of cgroupfs, "kubepods-burstable-pod1234_56.slice" of systemd.
std::string uid_in(std::string_view name) {
  if (name.ends_with(".slice")) {
    name.remove_suffix(std::string_view(".slice").size());
    const std::size_t at = name.rfind("-pod");
    if (at == std::string_view::npos) return {};
    std::string uid(name.substr(at + 4));
    std::replace(uid.begin(), uid.end(), '_', '-');
    return uid;
  }
  return name.starts_with("pod") ? std::string(name.substr(3)) : std::string();
}

bool is_kubepods(std::string_view name) {
  if (is_slice(name)) name.remove_suffix(std::string_view(".slice").size());
  return name == "kubepods" || name.ends_with("-kubepods");
}

bool is_class(std::string_view name) {
  if (is_slice(name)) name.remove_suffix(std::string_view(".slice").size());
  return name == "burstable" || name == "besteffort" || name.ends_with("kubepods-burstable") ||
         name.ends_with("kubepods-besteffort");
}

// Above kubepods there are slices, and the directory of kind's kubelet.
bool leads_to_kubepods(std::string_view name) { return is_slice(name) || name == "kubelet"; }

template <class Found>
Found in_first(const Roots& roots, const std::function<Found(const fs::path&)>& search) {
  for (const fs::path& root : hierarchies(roots)) {
    Found found = search(root);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<fs::path> hierarchies(const Roots& roots) {
  if (osml::exists(roots.cgroup / "cgroup.controllers")) return {roots.cgroup};
  std::vector<fs::path> found;
  const std::vector<std::string> names = directories(roots.cgroup);
  for (const char* controller : member_controllers) {
    for (const std::string& name : names) {
      const bool has = ("," + name + ",").find("," + std::string(controller) + ",") != std::string::npos;
      if (has) found.push_back(roots.cgroup / name);
    }
  }
  return found;
}

bool is_within(const std::string& inner, const std::string& outer) { return (inner + "/").starts_with(outer + "/"); }

// systemd puts '_' before names that the kernel could take for its own files. Which these are differs by its version.
std::string find_unit(const Roots& roots, const std::string& unit) {
  const std::string escaped = "_" + unit;
  return in_first<std::string>(roots, [&](const fs::path& root) {
    std::string found;
    walk(root, [&](const std::string& path, const std::string& name) {
      if (found.empty() && (name == unit || name == escaped)) found = path;
      return found.empty() && is_slice(name);
    });
    return found;
  });
}

std::vector<std::string> find_docker(const Roots& roots, const std::string& id) {
  return in_first<std::vector<std::string>>(roots, [&](const fs::path& root) {
    std::vector<std::string> found;
    for (const std::string& name : directories(root / "docker")) {
      if (name.starts_with(id)) found.push_back("docker/" + name);
    }
    walk(root, [&](const std::string& path, const std::string& name) {
      if (name.starts_with("docker-" + id) && name.ends_with(".scope")) found.push_back(path);
      return is_slice(name);
    });
    return found;
  });
}

std::vector<PodDirectory> pod_directories(const Roots& roots) {
  return in_first<std::vector<PodDirectory>>(roots, [](const fs::path& root) {
    std::vector<PodDirectory> found;
    walk(root, [&](const std::string& path, const std::string& name) {
      const bool inside =
          path.find("kubepods/") != std::string::npos || path.find("kubepods.slice/") != std::string::npos;
      if (!inside) return is_kubepods(name) || leads_to_kubepods(name);
      if (is_class(name)) return true;
      if (const std::string uid = uid_in(name); !uid.empty()) found.push_back({uid, path});
      return false;
    });
    return found;
  });
}

std::string find_container(const Roots& roots, const std::string& pod_path, const std::string& id) {
  return in_first<std::string>(roots, [&](const fs::path& root) {
    for (const std::string& name :
         {id, "cri-containerd-" + id + ".scope", "crio-" + id + ".scope", "crio-" + id, "docker-" + id + ".scope"}) {
      const fs::path path = fs::path(pod_path) / name;
      if (osml::exists(root / path)) return path.string();
    }
    return std::string();
  });
}

}  // namespace osml
