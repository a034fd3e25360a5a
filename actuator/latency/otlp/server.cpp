#include "otlp/server.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace osml::latency::otlp {

namespace {

constexpr std::size_t memory_of_connection = 32768;  // its headers, and what was read and not taken yet
constexpr std::size_t most_ignored = 4;              // times the limit of a body
constexpr double look_every_s = 1;
// libmicrohttpd stops accepting at its own limit; ours comes first, and those that are cut still count there.
constexpr unsigned margin = 64;

std::string header(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? std::string() : std::string(value);
}

MHD_Result reply(MHD_Connection* connection, const Answer& answer) {
  // libmicrohttpd copies the body, and its type for that is not const.
  auto* const bytes = const_cast<char*>(answer.body.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  MHD_Response* response = MHD_create_response_from_buffer(answer.body.size(), bytes, MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_POST);
  }
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return queued;
}

}  // namespace

// Nothing may be thrown through libmicrohttpd: out of memory ends the connection, or the thing is left undone.
struct Server::Callbacks {
  static void connection(void* cls, MHD_Connection* connection, void** /*context*/,
                         MHD_ConnectionNotificationCode code) {
    auto* const server = static_cast<Server*>(cls);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) return server->closed(connection);
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == nullptr) return;
    try {
      server->opened(connection, info->connect_fd);
    } catch (const std::exception&) {
      (void)::shutdown(info->connect_fd, SHUT_RDWR);
    }
  }

  static MHD_Result request(void* cls, MHD_Connection* connection, const char* url, const char* method,
                            const char* /*version*/, const char* part, size_t* size, void** state) {
    auto* const server = static_cast<Server*>(cls);
    try {
      const auto found = server->peers_.find(connection);
      if (found == server->peers_.end()) return MHD_NO;
      Peer& peer = found->second;
      if (*state == nullptr) {
        peer.exchange = std::make_unique<Exchange>();
        peer.exchange->request = {method,
                                  url,
                                  header(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
                                  header(connection, MHD_HTTP_HEADER_CONTENT_ENCODING),
                                  false,
                                  {}};
        peer.since = Clock::now();
        *state = peer.exchange.get();
        return MHD_YES;
      }
      if (*size == 0) return reply(connection, server->finish(connection));
      const bool going_on = server->receive(connection, {part, *size});
      *size = 0;
      return going_on ? MHD_YES : MHD_NO;
    } catch (const std::exception&) {
      return MHD_NO;
    }
  }

  static void completed(void* cls, MHD_Connection* connection, void** state, MHD_RequestTerminationCode /*why*/) {
    *state = nullptr;
    static_cast<Server*>(cls)->completed(connection);
  }
};

Result<std::unique_ptr<Server>> Server::open(Fd listener, Handle handle, const Limits& limits) {
  std::unique_ptr<Server> server(new Server(std::move(handle), limits));  // not make_unique: the constructor is private
  void* const self = server.get();
  server->daemon_ = MHD_start_daemon(  // NOLINT(cppcoreguidelines-pro-type-vararg)
      MHD_USE_EPOLL, 0, nullptr, nullptr, &Callbacks::request, self, MHD_OPTION_LISTEN_SOCKET, listener.get(),
      MHD_OPTION_CONNECTION_LIMIT, limits.connections + margin, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      memory_of_connection, MHD_OPTION_NOTIFY_CONNECTION, &Callbacks::connection, self, MHD_OPTION_NOTIFY_COMPLETED,
      &Callbacks::completed, self, MHD_OPTION_END);
  if (server->daemon_ == nullptr) return errno_error(errno, "cannot start the HTTP server");
  (void)listener.release();  // the daemon closes it
  const auto* info = MHD_get_daemon_info(server->daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  if (info == nullptr) return Error{ErrorKind::Unsupported, "libmicrohttpd has no epoll, expected one that has it", 0};
  server->fd_ = info->epoll_fd;
  return server;
}

Server::~Server() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

double Server::most_wait_s() const {
  double wait_s = peers_.empty() ? std::numeric_limits<double>::infinity() : look_every_s;
  MHD_UNSIGNED_LONG_LONG ms = 0;
  if (MHD_get_timeout(daemon_, &ms) == MHD_YES) wait_s = std::min(wait_s, static_cast<double>(ms) / 1000.0);
  return wait_s;
}

void Server::run() {
  (void)MHD_run(daemon_);
  cut_slow();
}

void Server::opened(MHD_Connection* connection, int fd) {
  const auto live = std::count_if(peers_.begin(), peers_.end(), [](const auto& one) { return !one.second.cut; });
  if (static_cast<unsigned>(live) >= limits_.connections) {
    if (Peer* longest = oldest([](const Peer&) { return true; })) cut(*longest);
  }
  peers_[connection] = Peer{fd, Clock::now(), nullptr, false};
}

bool Server::receive(MHD_Connection* connection, std::string_view part) {
  Peer& peer = peers_.at(connection);
  if (peer.cut) return false;
  Exchange& exchange = *peer.exchange;
  exchange.received += part.size();
  if (exchange.received > limits_.body) {
    // It is read to its end, so that the client reads the answer; but not without an end.
    drop_body(peer);
    exchange.request.too_long = true;
    return exchange.received <= most_ignored * limits_.body;
  }
  exchange.request.body += part;
  held_ += part.size();
  if (held_ > limits_.held) {
    Peer* longest = oldest([&peer](const Peer& other) {
      return &other != &peer && other.exchange && !other.exchange->request.body.empty();
    });
    if (longest != nullptr) cut(*longest);
  }
  return true;
}

Answer Server::finish(MHD_Connection* connection) {
  Peer& peer = peers_.at(connection);
  Answer answer = handle_(peer.exchange->request);
  drop_body(peer);
  return answer;
}

void Server::completed(MHD_Connection* connection) {
  const auto found = peers_.find(connection);
  if (found == peers_.end()) return;
  drop_body(found->second);
  found->second.exchange.reset();
  found->second.since = Clock::now();
}

void Server::drop_body(Peer& peer) {
  if (!peer.exchange) return;
  held_ -= peer.exchange->request.body.size();
  peer.exchange->request.body = std::string();
}

void Server::cut(Peer& peer) {
  drop_body(peer);
  if (peer.exchange) peer.exchange->request.too_long = true;  // what it has sent already is no whole body
  peer.cut = true;
  // libmicrohttpd sees the end of it and closes.
  (void)::shutdown(peer.fd, SHUT_RDWR);
}

Server::Peer* Server::oldest(const std::function<bool(const Peer&)>& wanted) {
  Peer* longest = nullptr;
  for (auto& [connection, peer] : peers_) {
    if (peer.cut || !wanted(peer)) continue;
    if (longest == nullptr || peer.since < longest->since) longest = &peer;
  }
  return longest;
}

void Server::cut_slow() {
  const auto now = Clock::now();
  for (auto& [connection, peer] : peers_) {
    const double waits_s = std::chrono::duration<double>(now - peer.since).count();
    if (!peer.cut && waits_s > (peer.exchange ? limits_.request_s : limits_.idle_s)) cut(peer);
  }
}

}  // namespace osml::latency::otlp
