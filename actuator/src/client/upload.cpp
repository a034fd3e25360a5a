#include "client/upload.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <utility>

namespace osml {

namespace {

std::uint32_t epoll_events_of(int what) {
  std::uint32_t events = 0;
  if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) events |= EPOLLIN;
  if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) events |= EPOLLOUT;
  return events;
}

int curl_events_of(std::uint32_t events) {
  int what = 0;
  if ((events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
  if ((events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
  return what;
}

}  // namespace

HttpUpload::HttpUpload(HttpLimits limits)
    : limits_(std::move(limits)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      headers_(nullptr, curl_slist_free_all),
      multi_(curl_multi_init(), curl_multi_cleanup),
      easy_(curl_easy_init(), curl_easy_cleanup) {
  if (!multi_ || !easy_) return;
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &HttpUpload::watch_socket);
  curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &HttpUpload::set_timer);
  curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
  bind_connection(easy_.get(), limits_);
  if (!limits_.keep_open) {
    curl_easy_setopt(easy_.get(), CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(easy_.get(), CURLOPT_CA_CACHE_TIMEOUT, 0L);
  }
  curl_easy_setopt(easy_.get(), CURLOPT_WRITEFUNCTION, &HttpUpload::receive);
  curl_easy_setopt(easy_.get(), CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_.get(), CURLOPT_ERRORBUFFER, words_.data());
  if (!timer_.valid()) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = timer_.get();
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &event);
}

HttpUpload::~HttpUpload() {
  if (busy_) curl_multi_remove_handle(multi_.get(), easy_.get());
}

std::size_t HttpUpload::receive(char* data, std::size_t size, std::size_t count, void* self) {
  auto& upload = *static_cast<HttpUpload*>(self);
  const std::size_t bytes = size * count;
  upload.received_ += bytes;
  if (upload.received_ > upload.limits_.max_bytes) {
    upload.too_long_ = true;
    return 0;  // anything but `bytes` makes libcurl give up
  }
  if (upload.limits_.keep_body) upload.answer_.body.append(data, bytes);
  return bytes;
}

int HttpUpload::watch_socket(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* /*known*/) {
  const int epoll = static_cast<HttpUpload*>(self)->epoll_.get();
  if (what == CURL_POLL_REMOVE) {
    (void)::epoll_ctl(epoll, EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  epoll_event event{};
  event.events = epoll_events_of(what);
  event.data.fd = socket;
  if (::epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) == 0) return 0;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) == 0 ? 0 : -1;
}

int HttpUpload::set_timer(CURLM* /*multi*/, long timeout_ms, void* self) {
  constexpr long ms_per_s = 1000;
  constexpr long ns_per_ms = 1'000'000;
  itimerspec when{};  // all zero: disarmed
  if (timeout_ms >= 0) {
    when.it_value.tv_sec = timeout_ms / ms_per_s;
    when.it_value.tv_nsec = timeout_ms == 0 ? 1 : timeout_ms % ms_per_s * ns_per_ms;
  }
  return ::timerfd_settime(static_cast<HttpUpload*>(self)->timer_.get(), 0, &when, nullptr);
}

Status HttpUpload::start(UploadRequest request) {
  if (!multi_ || !easy_ || !epoll_.valid() || !timer_.valid()) {
    return Error{ErrorKind::Capacity, "libcurl, epoll or timerfd could not be initialised"};
  }
  url_ = std::move(request.url);
  body_ = std::move(request.body);
  headers_ = json_headers(request.token, request.content_type);
  answer_ = {};
  words_.front() = '\0';
  too_long_ = false;
  received_ = 0;
  curl_easy_setopt(easy_.get(), CURLOPT_URL, url_.c_str());
  if (request.method == "GET") {
    curl_easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy_.get(), CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy_.get(), CURLOPT_CUSTOMREQUEST, nullptr);
  } else {
    set_json_body(easy_.get(), body_, headers_);
    curl_easy_setopt(easy_.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  if (const CURLMcode code = curl_multi_add_handle(multi_.get(), easy_.get()); code != CURLM_OK) {
    return Error{ErrorKind::Io, url_ + ": " + curl_multi_strerror(code)};
  }
  busy_ = true;
  return done();
}

void HttpUpload::handle_events() {
  std::array<epoll_event, 8> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  int running = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events.at(static_cast<std::size_t>(i));
    if (event.data.fd != timer_.get()) {
      curl_multi_socket_action(multi_.get(), event.data.fd, curl_events_of(event.events), &running);
      continue;
    }
    std::uint64_t expired = 0;
    (void)!::read(timer_.get(), &expired, sizeof(expired));
    curl_multi_socket_action(multi_.get(), CURL_SOCKET_TIMEOUT, 0, &running);
  }
}

std::optional<CURLcode> HttpUpload::finished() {
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi_.get(), &left);
  if (message == nullptr || message->msg != CURLMSG_DONE) return std::nullopt;
  return message->data.result;
}

std::optional<Result<HttpAnswer>> HttpUpload::progress() {
  if (!multi_ || !easy_) return std::nullopt;
  handle_events();
  if (!busy_) return std::nullopt;
  const std::optional<CURLcode> code = finished();
  if (!code) return std::nullopt;
  read_head(easy_.get(), answer_);
  curl_multi_remove_handle(multi_.get(), easy_.get());
  busy_ = false;
  body_ = std::string();  // gives its memory back
  if (too_long_ || *code == CURLE_FILESIZE_EXCEEDED) {
    return Error{ErrorKind::Capacity,
                 url_ + ": the answer is longer than " + std::to_string(limits_.max_bytes) + " bytes"};
  }
  if (*code != CURLE_OK) return connection_error(url_, *code, words_);
  return std::move(answer_);
}

}  // namespace osml
