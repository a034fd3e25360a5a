#include "client/curl_setup.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace osml {

namespace {

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

void bind_connection(CURL* curl, const HttpLimits& limits) {
  const long milliseconds = std::max(1L, std::lround(limits.timeout_s * 1000));
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, milliseconds);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, milliseconds);
  // An answer that says itself that it is too long is refused before it is read.
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(limits.max_bytes));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  // A name server that does not answer is no reason to wait longer: the resolver's thread is left to end by itself.
  curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // A proxy of whoever started the daemon must not see what the node reports.
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  if (!limits.tls.ca.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, limits.tls.ca.c_str());
  if (!limits.tls.client_cert.empty()) curl_easy_setopt(curl, CURLOPT_SSLCERT, limits.tls.client_cert.c_str());
  if (!limits.tls.client_key.empty()) curl_easy_setopt(curl, CURLOPT_SSLKEY, limits.tls.client_key.c_str());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "osml-agent/" OSML_VERSION);
}

HeaderList json_headers(const std::string& token, const std::string& content_type) {
  HeaderList headers(nullptr, curl_slist_free_all);
  add_header(headers, "Content-Type: " + content_type);
  add_header(headers, "Expect:");  // no round trip for a "100 Continue"
  if (!token.empty()) add_header(headers, "Authorization: Bearer " + token);
  return headers;
}

void set_json_body(CURL* curl, const std::string& body, const HeaderList& headers) {
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_POST, 1L);
  curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
  curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
}

void read_head(CURL* curl, HttpAnswer& answer) {
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  const char* type = nullptr;
  curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
  if (type != nullptr) answer.content_type = type;
  curl_off_t seconds = 0;
  curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) answer.retry_after_s = static_cast<double>(seconds);
}

void wait_for_answers(CURLM* multi, double most_s, const WhileWaiting& meanwhile) {
  constexpr double ms_per_s = 1000;
  const double wait_s = meanwhile ? std::min(most_s, meanwhile()) : most_s;
  (void)curl_multi_poll(multi, nullptr, 0, static_cast<int>(std::ceil(wait_s * ms_per_s)), nullptr);
}

Error connection_error(const std::string& url, CURLcode code, const CurlWords& words) {
  const std::string why = words.front() != '\0' ? words.data() : curl_easy_strerror(code);
  return Error{kind_of(code), url + ": " + why, code == CURLE_OPERATION_TIMEDOUT ? ETIMEDOUT : 0};
}

}  // namespace osml
