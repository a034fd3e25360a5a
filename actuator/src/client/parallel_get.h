// Several addresses at once within one time budget: who does not answer costs no more than one that does not.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "client/curl_setup.h"
#include "client/http.h"

namespace osml {

class ParallelGet {
 public:
  // The time is that of all together; the bytes are those of each, and twice as many of all. `accept`: the formats that
  // all of them are asked for.
  ParallelGet(HttpLimits limits, const std::string& accept);
  ParallelGet(const ParallelGet&) = delete;
  ParallelGet& operator=(const ParallelGet&) = delete;
  ParallelGet(ParallelGet&&) = delete;
  ParallelGet& operator=(ParallelGet&&) = delete;
  ~ParallelGet();

  // The place of the address among the answers. `most_bytes`: an answer with a limit of its own, which does not count
  // among those of all; 0 = none of its own.
  std::size_t add(const std::string& url, std::size_t most_bytes = 0);
  // Another address may have the place afterwards.
  void remove(std::size_t place);
  void run();
  // Of the last run, once.
  Result<HttpAnswer> take(std::size_t place);

 private:
  struct Request {
    ParallelGet* owner = nullptr;
    std::string url;
    std::size_t most_bytes = 0;
    std::unique_ptr<CURL, void (*)(CURL*)> easy{nullptr, curl_easy_cleanup};
    CurlWords words{};
    HttpAnswer answer;
    bool too_long = false;
    Result<HttpAnswer> result = Error{ErrorKind::Busy, "not asked yet", 0};
  };
  static std::size_t receive(char* data, std::size_t size, std::size_t count, void* self);
  void wait(double deadline_s);
  void collect();
  [[nodiscard]] Result<HttpAnswer> result_of(Request& request, CURLcode code) const;

  HttpLimits limits_;
  HeaderList headers_;
  std::size_t bytes_ = 0;  // of all answers of this run
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi_;
  std::vector<std::unique_ptr<Request>> requests_;  // libcurl keeps their addresses; null: free
};

}  // namespace osml
