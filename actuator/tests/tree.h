// Declarative fixture trees in a temporary directory, with newlines and padding as kernels print them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "apply/actuator.h"
#include "base/files.h"

namespace osml {

class Tree {
 public:
  Tree() {
    std::string name = (fs::temp_directory_path() / "osml-tree-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    std::error_code code;
    fs::remove_all(path_, code);
  }

  [[nodiscard]] const fs::path& path() const { return path_; }
  Tree& file(const std::string& name, const std::string& text) {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return *this;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto read = read_text(path_ / name);
    return read ? *read : "<" + read.error().message + ">";
  }
  [[nodiscard]] Roots roots() const { return {path_ / "resctrl", path_ / "cgroup", path_ / "proc", path_ / "sys"}; }

  // One socket, 8 CPUs in 4 cores, 20 MiB of L3 with cache id 0.
  Tree& sysfs() {
    file("sys/devices/system/cpu/online", "0-7\n");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      const std::string pair = std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n";
      file(base + "/topology/thread_siblings_list", pair);
      file(base + "/cache/index3/level", "3\n").file(base + "/cache/index3/id", "0\n");
      file(base + "/cache/index3/size", "20480K\n").file(base + "/cache/index3/shared_cpu_list", "0-7\n");
    }
    return *this;
  }
  // A service's cgroup v2 with one process of two threads.
  Tree& cgroup2(const std::string& path, int pid) {
    const std::string base = "cgroup/" + path;
    file("cgroup/cgroup.controllers", "cpuset cpu memory\n");
    file(base + "/cgroup.procs", std::to_string(pid) + "\n");
    file(base + "/cpuset.cpus", "\n").file(base + "/cpu.max", "max 100000\n").file(base + "/cpu.weight", "100\n");
    for (const int tid : {pid, pid + 1}) {
      file("proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm", "worker\n");
    }
    return *this;
  }
  // Root of a resctrl with 20 ways and MB in percent. A plain directory: what it cannot do is make a group's files.
  Tree& resctrl() {
    file("resctrl/schemata", "    MB:0=100\n    L3:0=fffff\n").file("resctrl/tasks", "");
    file("resctrl/info/L3/cbm_mask", "fffff\n").file("resctrl/info/L3/min_cbm_bits", "1\n");
    file("resctrl/info/L3/num_closids", "16\n").file("resctrl/info/L3/shareable_bits", "c0000\n");
    file("resctrl/info/MB/min_bandwidth", "10\n").file("resctrl/info/MB/bandwidth_gran", "10\n");
    file("resctrl/info/MB/num_closids", "8\n").file("resctrl/info/MB/delay_linear", "1\n");
    file("resctrl/info/last_cmd_status", "ok\n");
    return *this;
  }
  // Two services, "lc" in cgroup a and "be" in cgroup b.
  [[nodiscard]] Config config() const {
    Config config;
    config.node = "n";
    config.roots = roots();
    config.state_dir = path_ / "state";
    for (const auto& [name, group] : {std::pair{"lc", "a"}, std::pair{"be", "b"}}) {
      ServiceConfig service;
      service.spec.name = name;
      service.match.cgroup = group;
      config.services.push_back(service);
    }
    return config;
  }

 private:
  fs::path path_;
};

}  // namespace osml
