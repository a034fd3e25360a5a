#include "config/url.h"

#include <curl/curl.h>

#include <memory>

namespace osml {

namespace {

using ParsedUrl = std::unique_ptr<CURLU, void (*)(CURLU*)>;

ParsedUrl parsed_url(const std::string& url) {
  ParsedUrl parsed(curl_url(), curl_url_cleanup);
  (void)curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  return parsed;
}

std::string part_of(const ParsedUrl& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, 0) != CURLUE_OK) return {};
  std::string found(text);
  curl_free(text);
  return found;
}

}  // namespace

std::optional<std::string> url_error(const std::string& url, const std::string& instead) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(curl_url(), curl_url_cleanup);
  const char* expected = "expected an address like http://127.0.0.1:8080";
  if (url.rfind("http://", 0) != 0 && url.rfind("https://", 0) != 0) return expected;
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return expected;
  const auto has = [&parsed](CURLUPart part) {
    char* text = nullptr;
    const bool found = curl_url_get(parsed.get(), part, &text, 0) == CURLUE_OK;
    curl_free(text);
    return found;
  };
  if (!has(CURLUPART_HOST)) return expected;
  if (has(CURLUPART_USER) || has(CURLUPART_PASSWORD)) {
    return "expected an address without user and password; " + instead;
  }
  // also where nothing follows, which is no fragment for libcurl
  if (url.find('#') != std::string::npos) return "expected an address without '#'";
  return std::nullopt;
}

std::optional<std::string> base_url_error(const std::string& url, const std::string& instead) {
  if (auto error = url_error(url, instead)) return error;
  if (url.find('?') != std::string::npos)
    return "expected an address without '?', because the agent appends paths to it";
  return std::nullopt;
}

std::string without_credentials(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t start = scheme == std::string::npos ? 0 : scheme + 3;
  const std::size_t at = url.rfind('@');
  if (at == std::string::npos || at < start) return url;
  return url.substr(0, start) + "***" + url.substr(at);
}

std::string host_of(const std::string& url) { return part_of(parsed_url(url), CURLUPART_HOST); }

std::string with_host(const std::string& url, const std::string& host) {
  const ParsedUrl parsed = parsed_url(url);
  (void)curl_url_set(parsed.get(), CURLUPART_HOST, host.c_str(), 0);
  return part_of(parsed, CURLUPART_URL);
}

}  // namespace osml
