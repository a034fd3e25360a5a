// One kept-open HTTP connection (libcurl). Everything bounded: time, size, protocols; redirects are never followed,
// since an observation and its token shall go where the operator said and nowhere else.
#pragma once

#include <curl/curl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace osml {

// Whose certificates are believed, and our own; empty = the system's, none.
struct TlsFiles {
  std::string ca, client_cert, client_key;
};

// What goes on while somebody waits for an answer: it does what is due, and says in how many seconds it wants to be
// called again.
using WhileWaiting = std::function<double()>;

struct HttpLimits {
  double timeout_s = 0.5;  // wall time for everything: name, connection, answer
  std::size_t max_bytes = std::size_t{1} << 20U;
  TlsFiles tls = {};
  WhileWaiting meanwhile = {};  // of HttpConnection and ParallelGet
  // Of HttpUpload alone:
  bool keep_body = true;  // false: the answer is counted and thrown away
  bool keep_open = true;  // false: each request has a connection of its own, with the certificates as they are then
};

struct HttpAnswer {
  long status = 0;
  std::string content_type;  // empty where the server named none
  std::string body;
  std::optional<double> retry_after_s;
};

class HttpConnection {
 public:
  explicit HttpConnection(HttpLimits limits);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  HttpConnection(HttpConnection&&) = delete;
  HttpConnection& operator=(HttpConnection&&) = delete;
  ~HttpConnection() = default;

  // Connects to `address` for URLs with the host `name`, whose certificate is expected there.
  void connect_to(const std::string& name, const std::string& address);
  // The answer lives until the next call. Errors are about the way there (refused, too slow, too long); any status is
  // an answer.
  // `token` goes into the Authorization header; empty = none.
  Result<const HttpAnswer*> get(const std::string& url, const std::string& token);
  Result<const HttpAnswer*> post_json(const std::string& url, const std::string& body, const std::string& token);

 private:
  Result<const HttpAnswer*> perform(const std::string& url);
  CURLcode transfer();
  static std::size_t receive(char* data, std::size_t size, std::size_t count, void* self);

  HttpLimits limits_;
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;  // keeps the connection open
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> addresses_{nullptr, curl_slist_free_all};
  HttpAnswer answer_;
  bool too_long_ = false;
};

// What an answer that should have been something else looks like: "text/html beginning with '<html>...'".
std::string describe(const HttpAnswer& answer);

}  // namespace osml
