#include "client/http.h"

#include <algorithm>

#include "client/curl_setup.h"

namespace osml {

HttpConnection::HttpConnection(HttpLimits limits) : limits_(limits), curl_(curl_easy_init(), curl_easy_cleanup) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return;
  bind_connection(curl, limits);
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
  if (!curl_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
  const HeaderList headers = json_headers(token);
  set_json_body(curl_.get(), body, headers);
  auto answer = perform(url);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, nullptr);
  return answer;
}

Result<const HttpAnswer*> HttpConnection::get(const std::string& url, const std::string& token) {
  if (!curl_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
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

Result<const HttpAnswer*> HttpConnection::perform(const std::string& url) {
  CURL* curl = curl_.get();
  answer_.body.clear();
  answer_.content_type.clear();
  answer_.retry_after_s.reset();
  too_long_ = false;
  CurlWords words{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, words.data());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  const CURLcode code = curl_easy_perform(curl);
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
  std::string start = answer.body.substr(0, longest);
  std::replace_if(
      start.begin(), start.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  const std::string type = answer.content_type.empty() ? "no content type" : answer.content_type;
  if (start.empty()) return type + ", empty";
  return type + " beginning with '" + start + "'";
}

}  // namespace osml
