#include "client/parallel_get.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/number.h"

namespace osml {

ParallelGet::ParallelGet(HttpLimits limits, const std::string& accept)
    : limits_(std::move(limits)),
      headers_(curl_slist_append(nullptr, ("Accept: " + accept).c_str()), curl_slist_free_all),
      multi_(curl_multi_init(), curl_multi_cleanup) {}

ParallelGet::~ParallelGet() {
  for (std::size_t place = 0; place < requests_.size(); ++place) remove(place);
}

void ParallelGet::remove(std::size_t place) {
  auto& request = requests_.at(place);
  if (request && multi_ && request->easy) curl_multi_remove_handle(multi_.get(), request->easy.get());
  request.reset();
}

std::size_t ParallelGet::add(const std::string& url, std::size_t most_bytes) {
  auto request = std::make_unique<Request>();
  request->owner = this;
  request->url = url;
  request->most_bytes = most_bytes;
  request->easy.reset(curl_easy_init());
  if (CURL* easy = request->easy.get(); easy != nullptr) {
    bind_connection(easy, limits_);
    if (most_bytes > 0) curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(most_bytes));
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy, CURLOPT_URL, request->url.c_str());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &ParallelGet::receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request.get());
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->words.data());
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request.get());
  }
  const auto free = std::find(requests_.begin(), requests_.end(), nullptr);
  const auto place = static_cast<std::size_t>(free - requests_.begin());
  if (free == requests_.end()) requests_.emplace_back();
  requests_[place] = std::move(request);
  return place;
}

std::size_t ParallelGet::receive(char* data, std::size_t size, std::size_t count, void* self) {
  auto& request = *static_cast<Request*>(self);
  ParallelGet& owner = *request.owner;
  const std::size_t bytes = size * count;
  const bool alone = request.most_bytes > 0;
  if (!alone) owner.bytes_ += bytes;
  const std::size_t most = alone ? request.most_bytes : owner.limits_.max_bytes;
  if (request.answer.body.size() + bytes > most || (!alone && owner.bytes_ > 2 * most)) {
    request.too_long = true;
    return 0;  // anything but `bytes` makes libcurl give up
  }
  request.answer.body.append(data, bytes);
  return bytes;
}

void ParallelGet::run() {
  bytes_ = 0;
  for (const auto& request : requests_) {
    if (!request) continue;
    request->answer = {};
    request->words.front() = '\0';
    request->too_long = false;
    request->result = Error{ErrorKind::Busy,
                            request->url + ": no answer within " + format_number(limits_.timeout_s) + " s", ETIMEDOUT};
    if (multi_ && request->easy) curl_multi_add_handle(multi_.get(), request->easy.get());
  }
  if (!multi_) return;
  wait(monotonic_s() + limits_.timeout_s);
  collect();
  for (const auto& request : requests_) {
    if (request) curl_multi_remove_handle(multi_.get(), request->easy.get());
  }
}

void ParallelGet::wait(double deadline_s) {
  int running = 0;
  while (curl_multi_perform(multi_.get(), &running) == CURLM_OK && running > 0) {
    const double left_s = deadline_s - monotonic_s();
    if (left_s <= 0) return;
    wait_for_answers(multi_.get(), left_s, limits_.meanwhile);
  }
}

void ParallelGet::collect() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    Request* request = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
    request->result = result_of(*request, message->data.result);
  }
}

Result<HttpAnswer> ParallelGet::result_of(Request& request, CURLcode code) const {
  const bool too_long = request.too_long || code == CURLE_FILESIZE_EXCEEDED;
  if (too_long && request.most_bytes > 0) {
    return Error{ErrorKind::Io,
                 request.url + ": the answer is longer than " + std::to_string(request.most_bytes) + " bytes", 0};
  }
  if (too_long) {
    return Error{ErrorKind::Io,
                 request.url + ": the answer is longer than " + std::to_string(limits_.max_bytes) +
                     " bytes, or all answers together are longer than twice as many",
                 0};
  }
  if (code != CURLE_OK) return connection_error(request.url, code, request.words);
  read_head(request.easy.get(), request.answer);
  return std::move(request.answer);
}

Result<HttpAnswer> ParallelGet::take(std::size_t place) {
  return std::exchange(requests_.at(place)->result, Error{ErrorKind::Busy, "taken already", 0});
}

}  // namespace osml
