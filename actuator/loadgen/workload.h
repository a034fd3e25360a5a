// What is asked of a service and how its replies are read: one class a protocol behind this interface.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reply.h"
#include "schedule.h"

namespace osml::loadgen {

enum class Protocol { Redis, Memcached, Http, Mysql };

class Workload {
 public:
  Workload() = default;
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;
  virtual ~Workload() = default;

  // The next request of the mix; the view is good until the next call.
  virtual std::string_view next_request(Random& random) = 0;
  // One reader a connection.
  [[nodiscard]] virtual std::unique_ptr<ReplyReader> make_reader() const = 0;
};

// Six in ten GET and one SET of `keys` keys "key:0".. with values of `value_bytes`; three count the distinct visitors
// of a week (PFCOUNT of "visitors:0" to "visitors:6"), which takes the server some tenths of a millisecond.
std::unique_ptr<Workload> make_redis_workload(unsigned keys, unsigned value_bytes);
// Nine get to a set.
std::unique_ptr<Workload> make_memcached_workload(unsigned keys, unsigned value_bytes);
// GET of one of the paths, each as likely, compressed where the server does that, over kept connections.
std::unique_ptr<Workload> make_http_workload(const std::string& host, const std::vector<std::string>& paths);
// COM_QUERY of one of the statements, each as likely, as a user without a password in the database `osml`.
std::unique_ptr<Workload> make_mysql_workload(const std::vector<std::string>& statements);

// `requests` are paths or statements; HTTP asks for /small and /large where there are none, MySQL needs some.
std::unique_ptr<Workload> make_workload(Protocol protocol, const std::string& host,
                                        const std::vector<std::string>& requests = {});

}  // namespace osml::loadgen
