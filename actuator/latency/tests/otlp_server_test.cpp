// HTTP over real sockets: clients that are slow, many, greedy or talk nonsense hold up nobody.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "base/unix_socket.h"
#include "endpoint.h"
#include "otlp/server.h"

namespace osml::latency::otlp {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

class ServerTest : public testing::Test {
 protected:
  void start(const Limits& limits = {}) {
    Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener.get(), general(address_), sizeof(address_)), 0);
    ASSERT_EQ(::listen(listener.get(), 128), 0);
    socklen_t length = sizeof(address_);
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address_), &length);
    auto server = Server::open(
        std::move(listener),
        [this](const Request& request) {
          const std::lock_guard lock(mutex_);
          requests_.push_back(request);
          return Answer{request.too_long ? 413 : 200, "text/plain", "seen " + std::to_string(request.body.size())};
        },
        limits);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd waiting{server_->fd(), POLLIN, 0};
        (void)::poll(&waiting, 1, static_cast<int>(std::min(0.05, server_->most_wait_s()) * 1000));
        server_->run();
      }
    });
  }
  ~ServerTest() override {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
  }

  Fd connect() {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), general(address_), sizeof(address_)), 0);
    const timeval most{20, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    return fd;
  }
  static bool send(const Fd& fd, const std::string& text) {
    return ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Up to the end of an answer with a body that begins with "seen"; what came where the connection ended.
  static std::string receive(const Fd& fd) {
    std::string text;
    std::array<char, 4096> part{};
    while (text.find("\r\n\r\nseen ") == std::string::npos) {
      const ssize_t length = ::recv(fd.get(), part.data(), part.size(), 0);
      if (length <= 0) return text;
      text.append(part.data(), static_cast<std::size_t>(length));
    }
    return text;
  }
  static std::string head(std::size_t length, const std::string& more = "") {
    return "POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: " +
           std::to_string(length) + "\r\n" + more + "\r\n";
  }
  std::string ask(const std::string& body) {
    const Fd fd = connect();
    EXPECT_TRUE(send(fd, head(body.size()) + body));
    return receive(fd);
  }
  static bool ended(const Fd& fd) {
    char byte = 0;
    const ssize_t length = ::recv(fd.get(), &byte, 1, 0);
    return length == 0 || (length < 0 && errno != EAGAIN);
  }

  sockaddr_in address_{};
  std::mutex mutex_;
  std::vector<Request> requests_;
  std::unique_ptr<Server> server_;
  std::jthread thread_;
};

TEST_F(ServerTest, ARequestAndItsAnswerAndAnotherOneOnTheSameConnection) {
  start();
  const Fd fd = connect();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(send(fd, head(5, "Content-Encoding: gzip\r\n") + "hello"));
    const std::string answer = receive(fd);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(answer, HasSubstr("seen 5"));
  }
  EXPECT_EQ(requests_.size(), 3U);
  EXPECT_EQ(requests_[0].method, "POST");
  EXPECT_EQ(requests_[0].path, "/v1/metrics");
  EXPECT_EQ(requests_[0].content_type, "application/x-protobuf");
  EXPECT_EQ(requests_[0].content_encoding, "gzip");
  EXPECT_EQ(requests_[0].body, "hello");
}

TEST_F(ServerTest, ABodyInChunksAndOneThatIsAnnounced) {
  start();
  const Fd fd = connect();
  ASSERT_TRUE(
      send(fd, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
  EXPECT_THAT(receive(fd), HasSubstr("seen 5"));
  ASSERT_TRUE(send(fd, head(5, "Expect: 100-continue\r\n")));
  std::array<char, 64> part{};
  ASSERT_GT(::recv(fd.get(), part.data(), part.size(), 0), 0);
  EXPECT_THAT(part.data(), StartsWith("HTTP/1.1 100 "));
  ASSERT_TRUE(send(fd, "hello"));
  EXPECT_THAT(receive(fd), HasSubstr("seen 5"));
}

TEST_F(ServerTest, ABodyThatIsTooLongIsReadAndForgottenAndSaidSo) {
  start({.body = 1000});
  EXPECT_THAT(ask(std::string(2000, 'x')), StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(requests_.at(0).body, "");
  EXPECT_THAT(ask(std::string(1000, 'x')), HasSubstr("seen 1000"));
  // One without an end is cut off.
  const Fd fd = connect();
  (void)send(fd, head(100'000'000));
  while (send(fd, std::string(10'000, 'x'))) {
  }
  EXPECT_EQ(requests_.size(), 2U);
}

TEST_F(ServerTest, NonsenseIsRefusedOrCutOffAndOthersGoOn) {
  start({.request_s = 2, .idle_s = 2});
  for (const std::string& text :
       {std::string("\x16\x03\x01\x02"), std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("GET\r\n\r\n"),
        "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n" + std::string(9, 'x'),
        std::string("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")}) {
    const Fd fd = connect();
    (void)send(fd, text);
    (void)::shutdown(fd.get(), SHUT_WR);
    EXPECT_THAT(receive(fd), testing::Not(HasSubstr(" 200 ")));
  }
  EXPECT_THAT(ask("hello"), HasSubstr("seen 5"));
}

TEST_F(ServerTest, ASlowClientHoldsUpNobodyAndIsCutOff) {
  start({.request_s = 3, .idle_s = 3});
  const Fd slow = connect();
  ASSERT_TRUE(send(slow, head(100) + "a"));
  const Fd in_its_head = connect();
  ASSERT_TRUE(send(in_its_head, "POST /v1/met"));
  const Fd silent = connect();
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THAT(ask("hello"), HasSubstr("seen 5"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, 2s) << "before the slow ones are cut off";
  bool drips = true;
  while (drips && std::chrono::steady_clock::now() - began < 60s) {
    std::this_thread::sleep_for(50ms);
    drips = send(slow, "a");
  }
  EXPECT_FALSE(drips);
  EXPECT_TRUE(ended(in_its_head));
  EXPECT_TRUE(ended(silent));
}

TEST_F(ServerTest, OfTooManyConnectionsTheOldestGivesWay) {
  start({.connections = 10});
  std::vector<Fd> idle;
  for (int i = 0; i < 300; ++i) {
    idle.push_back(connect());
    ASSERT_TRUE(send(idle.back(), head(100)));
  }
  EXPECT_THAT(ask("hello"), HasSubstr("seen 5"));
  EXPECT_TRUE(ended(idle.front()));
}

TEST_F(ServerTest, OfTooManyBodiesTheOldestGivesWay) {
  start({.body = 10'000, .held = 20'000});
  std::vector<Fd> greedy;
  for (int i = 0; i < 20; ++i) {
    greedy.push_back(connect());
    ASSERT_TRUE(send(greedy.back(), head(10'000) + std::string(9'000, 'x')));
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_THAT(ask(std::string(10'000, 'y')), HasSubstr("seen 10000"));
  EXPECT_TRUE(ended(greedy.front()));
}

TEST_F(ServerTest, AClientThatDoesNotReadItsAnswersEndsToo) {
  start({.request_s = 2, .idle_s = 2});
  const Fd fd = connect();
  std::string many;
  for (int i = 0; i < 200; ++i) many += head(0);
  for (int i = 0; i < 2000 && ::send(fd.get(), many.data(), many.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0; ++i) {
  }
  EXPECT_THAT(ask("hello"), HasSubstr("seen 5"));
  // It still reads nothing; a reset is told even so.
  pollfd closed{fd.get(), 0, 0};
  EXPECT_EQ(::poll(&closed, 1, 20'000), 1);
}

TEST(ListenHttp, WrongAddressesAreOneSentence) {
  for (const char* endpoint : {"http:", "http:1", "http:localhost:4318", "http:127.0.0.1:0", "http:127.0.0.1:65536",
                               "udp:127.0.0.1:4318", "127.0.0.1:4318"}) {
    const auto fd = listen_http(endpoint);
    ASSERT_FALSE(fd) << endpoint;
    EXPECT_THAT(fd.error().message, HasSubstr("expected http:ADDRESS:PORT")) << endpoint;
  }
}

}  // namespace
}  // namespace osml::latency::otlp
