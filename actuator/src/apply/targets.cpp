// LatencyTargets in force, and the file that keeps them over a restart of the agent.
#include <spdlog/spdlog.h>

#include <utility>

#include "apply/node_state.h"
#include "config/trusted_file.h"
#include "locate/annotations.h"

namespace osml {

namespace {

constexpr std::size_t longest_file = std::size_t{1} << 20U;  // that is read again

}  // namespace

void Actuator::State::remember_targets() {
  if (!config->kubelet.discover.lists_targets() || !osml::exists(targets_path())) return;
  const auto text = read_trusted(targets_path(), "LatencyTargets");
  const Status read = text ? targets.read(*text, config->kubelet.discover) : Status(text.error());
  if (read) return;
  spdlog::warn("{} cannot be read, so the agent waits for the API server: {}", targets_path().string(),
               read.error().message);
}

// Switched on again they would be in force until the API server answers.
void Actuator::State::forget_targets() const {
  std::error_code ignored;
  if (!config->kubelet.discover.lists_targets()) fs::remove(targets_path(), ignored);
}

void Actuator::State::take_targets(TargetNews news) {
  const bool changed = targets.take(std::move(news));
  if ((!changed && !targets_unsaved) || options.read_only) return;
  const std::string text = targets.text();
  const bool fits = text.size() <= longest_file;
  const Status saved = fits ? write_atomically(targets_path(), text)
                            : Status(Error{ErrorKind::Capacity, "they have more than 1 MiB of text", 0});
  if (saved) {
    targets_unsaved = false;
    return;
  }
  if (!std::exchange(targets_unsaved, true)) {
    spdlog::warn("LatencyTargets are not kept for a restart of the agent: {}", saved.error().message);
  }
  // A full disk has room again soon, and the next list is saved. What never fits would leave an ever older one.
  std::error_code ignored;
  if (!fits) fs::remove(targets_path(), ignored);
}

bool Actuator::State::may_become_service(const std::string& pod_uid) {
  const Pod* pod = locator.asking_pod(pod_uid);
  return pod != nullptr && (asks_for_service(*pod) || !targets.selecting(*pod).empty());
}

}  // namespace osml
