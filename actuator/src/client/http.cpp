#include "client/http.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "client/curl_setup.h"

namespace osml {

HttpConnection::HttpConnection(HttpLimits limits)
    : limits_(std::move(limits)),
      multi_(curl_multi_init(), curl_multi_cleanup),
      curl_(curl_easy_init(), curl_easy_cleanup) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return;
  bind_connection(curl, limits_);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &HttpConnection::receive);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
}

std::size_t HttpConnection::receive(char* data, std::size_t size, std::size_t count, void* self) {
  auto& connection = *static_cast<HttpConnection*>(self);
  const std::size_t bytes = size * count;
  if (connection.answer_.body.size() + bytes > connection.limits_.max_bytes) {
    connection.too_long_ = true;
    return 0;  // anything but `bytes` makes libcurl give up
  }
  connection.answer_.body.append(data, bytes);
  return bytes;
}

Result<const HttpAnswer*> HttpConnection::post_json(const std::string& url, const std::string& body,
                                                    const std::string& token) {
  if (!curl_ || !multi_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
  const HeaderList headers = json_headers(token);
  set_json_body(curl_.get(), body, headers);
  auto answer = perform(url);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, nullptr);
  return answer;
}

Result<const HttpAnswer*> HttpConnection::get(const std::string& url, const std::string& token) {
  if (!curl_ || !multi_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
  const HeaderList headers = json_headers(token);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPGET, 1L);
  auto answer = perform(url);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, nullptr);
  return answer;
}

void HttpConnection::connect_to(const std::string& name, const std::string& address) {
  const std::string entry = name + "::" + address + ":";  // whatever port the URL has
  addresses_.reset(curl_slist_append(nullptr, entry.c_str()));
  if (curl_) curl_easy_setopt(curl_.get(), CURLOPT_CONNECT_TO, addresses_.get());
}

// As curl_easy_perform() does it, but for what goes on meanwhile.
CURLcode HttpConnection::transfer() {
  constexpr double longest_wait_s = 1;
  if (curl_multi_add_handle(multi_.get(), curl_.get()) != CURLM_OK) return CURLE_FAILED_INIT;
  int running = 1;
  while (curl_multi_perform(multi_.get(), &running) == CURLM_OK && running > 0) {
    wait_for_answers(multi_.get(), longest_wait_s, limits_.meanwhile);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi_.get(), &left);
  const bool ended = message != nullptr && message->msg == CURLMSG_DONE;
  const CURLcode code = ended ? message->data.result : CURLE_FAILED_INIT;
  curl_multi_remove_handle(multi_.get(), curl_.get());
  return code;
}

Result<const HttpAnswer*> HttpConnection::perform(const std::string& url) {
  CURL* curl = curl_.get();
  answer_.body.clear();
  answer_.content_type.clear();
  answer_.retry_after_s.reset();
  too_long_ = false;
  CurlWords words{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words.data());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  const CURLcode code = transfer();
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (too_long_ || code == CURLE_FILESIZE_EXCEEDED) {
    return Error{ErrorKind::Io, url + ": the answer is longer than " + std::to_string(limits_.max_bytes) + " bytes"};
  }
  if (code != CURLE_OK) return connection_error(url, code, words);
  read_head(curl, answer_);
  return &answer_;
}

std::string describe(const HttpAnswer& answer) {
  constexpr std::size_t longest = 60;
  constexpr std::size_t longest_type = 100;
  std::string start = answer.body.substr(0, longest);
  std::replace_if(
      start.begin(), start.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  const std::string type =
      answer.content_type.empty() ? "no content type" : printable(answer.content_type, longest_type);
  if (start.empty()) return type + ", empty";
  return type + " beginning with '" + start + "'";
}

}  // namespace osml
