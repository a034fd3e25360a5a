// A name server that does not answer: libcurl asks it on a thread of its own, and must not wait for that thread.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "client/http.h"
#include "client/upload.h"

namespace {

constexpr std::string_view unanswered = "unanswered.osml.test";
constexpr std::chrono::seconds silence(30);

}  // namespace

// In the place of libc's, for all that is linked into this program.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && node == unanswered) {
    std::this_thread::sleep_for(silence);
    return EAI_AGAIN;
  }
  using Resolve = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Resolve>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(node, service, hints, found);
}

namespace osml {
namespace {

using Clock = std::chrono::steady_clock;

const std::string url = "http://" + std::string(unanswered) + "/v1/decisions";
constexpr std::chrono::milliseconds soon(15'000);

TEST(Resolver, ADecisionIsNotWaitedForLongerThanItsTime) {
  HttpConnection http({.timeout_s = 0.2});
  const auto begun = Clock::now();
  const auto answer = http.post_json(url, "{}", "");
  EXPECT_FALSE(answer);
  EXPECT_LT(Clock::now() - begun, soon);
}

TEST(Resolver, AnUploadNeverHoldsTheLoopUp) {
  HttpUpload upload({.timeout_s = 0.2});
  ASSERT_TRUE(upload.start({.url = url, .body = "{}"}));
  pollfd waiting{upload.fd(), POLLIN, 0};
  Clock::duration longest{0};
  const auto begun = Clock::now();
  while (upload.busy() && Clock::now() - begun < 2 * silence) {
    ::poll(&waiting, 1, 100);
    const auto before = Clock::now();
    (void)upload.progress();
    longest = std::max(longest, Clock::now() - before);
  }
  EXPECT_FALSE(upload.busy());
  EXPECT_LT(longest, std::chrono::seconds(10));
  EXPECT_LT(Clock::now() - begun, soon);
}

}  // namespace
}  // namespace osml
