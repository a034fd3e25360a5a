// One request at a time to the API server that nobody waits for. Of an answer to a report only the status is read.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "client/upload.h"
#include "config/config.h"

namespace osml {

// What became of a request; of a report, as the metric counts it. Written: the API server did what was asked.
enum class ApiResult { Written, Unreachable, Refused, Busy, Failed };
constexpr std::size_t report_results = 5;
inline constexpr std::array<const char*, report_results> report_names = {"written", "unreachable", "refused", "busy",
                                                                         "failed"};

struct ApiAnswer {
  ApiResult result = ApiResult::Failed;
  long status = 0;           // of HTTP; 0: none came
  std::string why;           // one sentence; empty where it was written
  double retry_after_s = 0;  // wall time
  HttpAnswer list = {};      // what was asked for; of a report nothing
  bool too_long = false;     // more came than the agent reads

  // The same for the same cause: what libcurl says has milliseconds in it.
  [[nodiscard]] std::string cause() const {
    return result == ApiResult::Unreachable && !too_long ? "unreachable" : why;
  }
};

// What the requests are for: it decides what is kept of an answer, and what helps where the API server refuses.
enum class ApiUse { Reports, LatencyTargets };

class ApiServer {
 public:
  ApiServer(KubernetesConfig config, ApiUse use);

  [[nodiscard]] int fd() const { return upload_.fd(); }
  [[nodiscard]] bool busy() const { return upload_.busy(); }
  // Not while busy. Token and certificates are read anew each time, since both are rotated. The error says why nothing
  // went out.
  Status start(const std::string& method, const std::string& path, std::string body);
  // The answer, once; none while it is under way.
  std::optional<ApiAnswer> progress();
  // Waits for the answer, at most kubernetes.timeout_s.
  ApiAnswer wait();

 private:
  [[nodiscard]] ApiAnswer read(Result<HttpAnswer> answer) const;

  KubernetesConfig config_;
  ApiUse use_;
  HttpUpload upload_;
  std::string path_;
};

}  // namespace osml
