// One request at a time that nobody waits for: libcurl's multi interface behind one file descriptor that
// the daemon's own epoll watches, so that a slow server costs the control loop nothing and no second thread is needed.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/result.h"
#include "client/curl_setup.h"
#include "client/http.h"

namespace osml {

struct UploadRequest {
  std::string url;
  std::string body = {};
  std::string token = {};       // empty = no Authorization header
  std::string method = "POST";  // GET: without a body
  std::string content_type = "application/json";
};

class HttpUpload {
 public:
  explicit HttpUpload(HttpLimits limits);
  HttpUpload(const HttpUpload&) = delete;
  HttpUpload& operator=(const HttpUpload&) = delete;
  HttpUpload(HttpUpload&&) = delete;
  HttpUpload& operator=(HttpUpload&&) = delete;
  ~HttpUpload();

  // Readable whenever progress() has something to do; the same one as long as the upload lives.
  [[nodiscard]] int fd() const { return epoll_.get(); }
  [[nodiscard]] bool busy() const { return busy_; }
  // Not while busy. Returns at once.
  Status start(UploadRequest request);
  // Does what can be done without waiting. The answer, or why there is none, once; none while it is under way.
  std::optional<Result<HttpAnswer>> progress();

 private:
  static std::size_t receive(char* data, std::size_t size, std::size_t count, void* self);
  static int watch_socket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int set_timer(CURLM* multi, long timeout_ms, void* self);
  void handle_events();
  std::optional<CURLcode> finished();

  HttpLimits limits_;
  Fd epoll_;
  Fd timer_;
  HeaderList headers_;
  std::string url_;
  std::string body_;
  std::size_t received_ = 0;
  HttpAnswer answer_;
  CurlWords words_{};
  bool busy_ = false;
  bool too_long_ = false;
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  std::unique_ptr<CURL, void (*)(CURL*)> easy_;
};

}  // namespace osml
