#include "config/url.h"

#include <curl/curl.h>

#include <memory>

namespace osml {

std::optional<std::string> url_error(const std::string& url) {
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
    return "expected an address without user and password; use server.token_file";
  }
  if (has(CURLUPART_FRAGMENT)) return "expected an address without '#'";
  return std::nullopt;
}

std::string without_credentials(const std::string& url) {
  const std::size_t scheme = url.find("://");
  const std::size_t start = scheme == std::string::npos ? 0 : scheme + 3;
  const std::size_t at = url.rfind('@');
  if (at == std::string::npos || at < start) return url;
  return url.substr(0, start) + "***" + url.substr(at);
}

}  // namespace osml
