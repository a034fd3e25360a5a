#include "client/http.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

namespace osml {

namespace {

using HeaderList = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

void add_header(HeaderList& list, const std::string& line) {
  curl_slist* longer = curl_slist_append(list.get(), line.c_str());
  if (longer == nullptr) return;
  (void)list.release();
  list.reset(longer);
}

ErrorKind kind_of(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return ErrorKind::Busy;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return ErrorKind::Input;
    default:
      return ErrorKind::Io;
  }
}

}  // namespace

HttpConnection::HttpConnection(HttpLimits limits) : limits_(limits), curl_(curl_easy_init(), curl_easy_cleanup) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return;
  const long milliseconds = std::max(1L, std::lround(limits.timeout_s * 1000));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, milliseconds);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, milliseconds);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // A proxy of whoever started the daemon must not see what the node reports.
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "osml-agent/" OSML_VERSION);
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

Result<const HttpAnswer*> HttpConnection::get(const std::string& url) {
  if (!curl_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPGET, 1L);
  return perform(url);
}

Result<const HttpAnswer*> HttpConnection::post_json(const std::string& url, const std::string& body,
                                                    const std::string& token) {
  if (!curl_) return Error{ErrorKind::Capacity, "libcurl could not be initialised"};
  HeaderList headers(nullptr, curl_slist_free_all);
  add_header(headers, "Content-Type: application/json");
  add_header(headers, "Expect:");  // no round trip for a "100 Continue"
  if (!token.empty()) add_header(headers, "Authorization: Bearer " + token);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl_.get(), CURLOPT_POST, 1L);
  curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  auto answer = perform(url);
  curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, nullptr);
  return answer;
}

Result<const HttpAnswer*> HttpConnection::perform(const std::string& url) {
  CURL* curl = curl_.get();
  answer_.body.clear();
  answer_.content_type.clear();
  answer_.retry_after_s.reset();
  too_long_ = false;
  std::array<char, CURL_ERROR_SIZE> detail{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail.data());
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  if (too_long_) {
    return Error{ErrorKind::Io, url + ": the answer is longer than " + std::to_string(limits_.max_bytes) + " bytes"};
  }
  if (code != CURLE_OK) {
    const std::string why = detail.front() != '\0' ? detail.data() : curl_easy_strerror(code);
    return Error{kind_of(code), url + ": " + why, code == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT : 0};
  }
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer_.status);
  const char* type = nullptr;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
  if (type != nullptr) answer_.content_type = type;
  curl_off_t seconds = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) answer_.retry_after_s = static_cast<double>(seconds);
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
