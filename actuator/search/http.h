// As much of HTTP/1.1 as a GET over a kept connection needs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace osml::search {

struct Reply {
  int status = 200;
  std::string body;
};

// The value of `q` in "/search?q=two+words", decoded; empty where the target is another one.
std::optional<std::string> query_of(std::string_view target);
// Listens on 127.0.0.1. One thread a connection, at most `threads` at once: further connections wait to be accepted.
// `make_handler` runs once in each thread; the handler answers a target. Returns an exit code, at an error only.
int serve(unsigned port, unsigned threads,
          const std::function<std::function<Reply(const std::string& target)>()>& make_handler);

}  // namespace osml::search
