#include "spec.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

namespace osml::loadgen {
namespace {

constexpr std::size_t kMaxRequest = 4096;
constexpr std::size_t kMaxRequests = 100'000;

Error wrong(const std::string& message) { return {ErrorKind::Input, message, 0}; }

Result<unsigned> parse_unsigned(std::string_view text, const std::string& field, unsigned low, unsigned high) {
  std::uint64_t value = 0;
  if (!parse_count(text, value) || value < low || value > high) {
    return wrong(field + " '" + std::string(text) + "': expected a whole number from " + std::to_string(low) + " to " +
                 std::to_string(high));
  }
  return static_cast<unsigned>(value);
}

Status set_address(ServiceSpec& spec, std::string_view text) {
  const auto colon = text.rfind(':');
  const std::string host(text.substr(0, colon));
  std::uint64_t port = 0;
  spec.address.sin_family = AF_INET;
  if (colon == std::string_view::npos || inet_pton(AF_INET, host.c_str(), &spec.address.sin_addr) != 1 ||
      !parse_count(text.substr(colon + 1), port) || port < 1 || port > 65535) {
    return wrong("address '" + std::string(text) + "': expected a numeric IPv4 address and port like 127.0.0.1:6379");
  }
  spec.address.sin_port = htons(static_cast<std::uint16_t>(port));
  spec.host = std::string(text);
  return done();
}

Status set_protocol(ServiceSpec& spec, std::string_view text) {
  if (text == "redis") {
    spec.protocol = Protocol::Redis;
  } else if (text == "memcached") {
    spec.protocol = Protocol::Memcached;
  } else if (text == "http") {
    spec.protocol = Protocol::Http;
  } else if (text == "mysql") {
    spec.protocol = Protocol::Mysql;
  } else {
    return wrong("protocol '" + std::string(text) + "': expected redis, memcached, http or mysql");
  }
  return done();
}

bool legal_name(std::string_view name) {
  return !name.empty() && name.size() <= 63 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

Status set_field(ServiceSpec& spec, std::string_view key, std::string_view value) {
  if (key == "name") {
    if (!legal_name(value)) {
      return wrong("name '" + std::string(value) + "': expected 1 to 63 letters, digits, '_', '.' or '-'");
    }
    spec.name = std::string(value);
    return done();
  }
  if (key == "protocol") return set_protocol(spec, value);
  if (key == "address") return set_address(spec, value);
  if (key == "output") {
    spec.output = std::string(value);
    return done();
  }
  if (key == "requests") {
    spec.requests = {std::string(value)};  // the file, until the protocol is known
    return done();
  }
  if (key == "rate") {
    const auto rate = parse_rate(value, "rate");
    if (!rate) return rate.error();
    spec.rate = *rate;
    return done();
  }
  if (key == "connections") {
    const auto connections = parse_unsigned(value, "connections", 1, kMaxConnections);
    if (!connections) return connections.error();
    spec.connections = *connections;
    return done();
  }
  return wrong("unknown key '" + std::string(key) +
               "': known are name, protocol, address, rate, connections, requests, output");
}

}  // namespace

Result<std::vector<std::string>> read_requests(const std::string& path, Protocol protocol) {
  if (protocol != Protocol::Http && protocol != Protocol::Mysql) {
    return wrong("requests '" + path + "': only http and mysql take a file of requests");
  }
  std::ifstream file(path);
  if (!file) return wrong("requests '" + path + "': the file cannot be read");
  std::vector<std::string> requests;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const bool printable = std::ranges::all_of(line, [&](unsigned char c) {
      return c >= 0x20 && c != 0x7f && (protocol != Protocol::Http || (c > 0x20 && c < 0x7f));
    });
    if (!printable || line.size() > kMaxRequest || (protocol == Protocol::Http && line.front() != '/')) {
      return wrong("requests '" + path + "': line '" + line.substr(0, 80) +
                   "': expected a path that starts with '/', or a statement, of at most 4096 printable characters");
    }
    if (requests.size() == kMaxRequests) return wrong("requests '" + path + "': expected at most 100000 lines");
    requests.push_back(std::move(line));
  }
  if (requests.empty()) return wrong("requests '" + path + "': the file has no request");
  return requests;
}

Result<double> parse_rate(std::string_view text, const std::string& field) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < 0 ||
      value > kMaxRate) {
    return wrong(field + " '" + std::string(text) + "': expected requests per second from 0 to 200000");
  }
  return value;
}

Result<ServiceSpec> parse_service(std::string_view text) {
  ServiceSpec spec;
  bool has_protocol = false;
  std::string_view left = text;
  while (!left.empty()) {
    const auto comma = left.find(',');
    const std::string_view part = left.substr(0, comma);
    left = comma == std::string_view::npos ? std::string_view{} : left.substr(comma + 1);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      return wrong("--service '" + std::string(text) + "': '" + std::string(part) + "' is not of the form key=value");
    }
    const auto set = set_field(spec, part.substr(0, equals), part.substr(equals + 1));
    if (!set) return set.error().wrap("--service '" + std::string(text) + "'");
    has_protocol = has_protocol || part.substr(0, equals) == "protocol";
  }
  if (spec.name.empty() || !has_protocol || spec.host.empty()) {
    return wrong("--service '" + std::string(text) + "': name, protocol and address must all be given");
  }
  if (spec.protocol == Protocol::Mysql && spec.requests.empty()) {
    return wrong("--service '" + std::string(text) + "': protocol mysql needs requests=FILE, one statement a line");
  }
  if (!spec.requests.empty()) {
    auto requests = read_requests(spec.requests.front(), spec.protocol);
    if (!requests) return requests.error().wrap("--service '" + std::string(text) + "'");
    spec.requests = std::move(*requests);
  }
  return spec;
}

}  // namespace osml::loadgen
