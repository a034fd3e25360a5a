// What latencies are made of: datagrams, or exports over HTTP.
#pragma once

#include <limits>
#include <optional>
#include <string>

namespace osml::latency {

class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Readable where something has come.
  [[nodiscard]] virtual int fd() const = 0;
  // Seconds after which receive() shall be called even so.
  [[nodiscard]] virtual double most_wait_s() const { return std::numeric_limits<double>::infinity(); }
  // Takes what has come, without waiting, and returns within a part of a second however much comes.
  virtual void receive() = 0;
  // The telemetry line of the interval that ends; none where no request came.
  virtual std::optional<std::string> take(double length_s) = 0;
};

}  // namespace osml::latency
