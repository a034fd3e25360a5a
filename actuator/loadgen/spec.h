// What the command line says, checked: which services at which rates.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "workload.h"

namespace osml::loadgen {

struct ServiceSpec {
  std::string name;
  Protocol protocol = Protocol::Http;
  sockaddr_in address{};
  std::string host;  // address as it was written, for HTTP's Host header
  double rate = 0;   // requests per second
  unsigned connections = 8;
  std::string output;                 // telemetry file; empty = none
  std::vector<std::string> requests;  // paths (HTTP) or statements (MySQL); empty = the protocol's own
};

inline constexpr double kMaxRate = 200'000;
inline constexpr unsigned kMaxConnections = 1024;

// A file of paths or statements, one a line; blank lines are left out. Refuses one that HTTP could not carry.
Result<std::vector<std::string>> read_requests(const std::string& path, Protocol protocol);
// "name=redis,protocol=redis,address=127.0.0.1:6379,rate=1000,connections=16,output=/run/redis.jsonl"
Result<ServiceSpec> parse_service(std::string_view text);
// Requests per second, 0..kMaxRate. `field` is what the error calls it.
Result<double> parse_rate(std::string_view text, const std::string& field);

}  // namespace osml::loadgen
