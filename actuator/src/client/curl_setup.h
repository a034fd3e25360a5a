// What every connection of the agent has in common, whoever drives it: bounds, headers, the reading of an answer.
#pragma once

#include <curl/curl.h>

#include <array>
#include <memory>
#include <string>

#include "base/result.h"
#include "client/http.h"

namespace osml {

using HeaderList = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;
using CurlWords = std::array<char, CURL_ERROR_SIZE>;  // where libcurl writes why it failed

// Time, length of an answer, protocols, certificates, no redirects, no proxy of the environment.
void bind_connection(CURL* curl, const HttpLimits& limits);
// Of a request with a JSON body. `token` empty = no Authorization header.
HeaderList json_headers(const std::string& token, const std::string& content_type = "application/json");
// The body is not copied: it must live until the request is done.
void set_json_body(CURL* curl, const std::string& body, const HeaderList& headers);
// Status, content type and Retry-After of the answer that just came.
void read_head(CURL* curl, HttpAnswer& answer);
// Until there is something to do for the transfers, and `most_s` at most.
void wait_for_answers(CURLM* multi, double most_s, const WhileWaiting& meanwhile);
Error connection_error(const std::string& url, CURLcode code, const CurlWords& words);

}  // namespace osml
