// The agent's end: questions about containers come as datagrams to a socket in state_dir, which root alone can reach.
// Answers go to the socket of the plugin beside it. Nothing here ever waits.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/files.h"
#include "gate/question.h"

namespace osml {

inline constexpr const char* gate_socket = "containers.sock";
inline constexpr const char* plugin_socket = "nri.sock";

class Gate {
 public:
  // Binds state_dir/containers.sock with mode 0600; one that a crash left is replaced.
  static Result<std::unique_ptr<Gate>> open(const fs::path& state_dir);
  // Removes the file of the socket.
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Readable where somebody asked.
  [[nodiscard]] int fd() const { return fd_.get(); }
  // What has come, a bounded number; what makes no sense is forgotten.
  std::vector<ContainerQuestion> take();
  void answer(const ContainerAnswer& answer);
  // Where it differs from what was told last; true where it was sent. A plugin that is not there asks when it comes.
  bool tell(const CpusInForce& cpus);

 private:
  Gate(fs::path directory, Fd fd) : directory_(std::move(directory)), fd_(std::move(fd)) {}
  Status send(const std::string& text);

  fs::path directory_;
  Fd fd_;
  std::optional<CpusInForce> told_;
};

}  // namespace osml
