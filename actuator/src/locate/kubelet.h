// The pods of this node, from its kubelet.
#pragma once

#include <vector>

#include "base/result.h"
#include "config/config.h"
#include "locate/pod_list.h"

namespace osml {

class PodSource {
 public:
  PodSource() = default;
  PodSource(const PodSource&) = delete;
  PodSource& operator=(const PodSource&) = delete;
  virtual ~PodSource() = default;
  virtual Result<std::vector<Pod>> pods() = 0;
};

class Kubelet : public PodSource {
 public:
  explicit Kubelet(KubeletConfig config) : config_(std::move(config)) {}
  // One request within kubelet.timeout_s. The token is read anew each time, since it is rotated.
  Result<std::vector<Pod>> pods() override;

 private:
  KubeletConfig config_;
};

}  // namespace osml
