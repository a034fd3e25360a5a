#include "otlp/receiver.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "otlp.pb.h"
#include "otlp/unpack.h"
#include "otlp/wire.h"

namespace osml::latency::otlp {

namespace {

constexpr const char* path = "/v1/metrics";
constexpr const char* protobuf_type = "application/x-protobuf";
constexpr const char* json_type = "application/json";
constexpr std::size_t longest_word = 60;
constexpr auto replace = nlohmann::json::error_handler_t::replace;

enum Code { InvalidArgument = 3, NotFound = 5, ResourceExhausted = 8, Unimplemented = 12 };  // of google.rpc.Status

std::string lower(std::string_view text) {
  std::string made(text);
  std::transform(made.begin(), made.end(), made.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return made;
}

// Without parameters such as "; charset=utf-8".
std::string media_type(std::string_view text) {
  std::string type = lower(text.substr(0, text.find(';')));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  return type;
}

Answer refusal(int status, Code code, const std::string& why, bool as_json) {
  if (as_json)
    return {status, json_type, nlohmann::json{{"code", code}, {"message", why}}.dump(-1, ' ', true, replace)};
  proto::Status message;
  message.set_code(code);
  message.set_message(why);
  return {status, protobuf_type, message.SerializeAsString()};
}

// Answers are text for people: what is no ASCII in a header is not.
std::string quoted(const std::string& word) {
  std::string text = printable(word, longest_word);
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return (letter & '\x80') != 0; }, '?');
  return "'" + text + "'";
}

// What the body is after all; an answer where it cannot be had.
std::optional<Answer> body_of(const Request& request, bool as_json, std::string& unpacked, std::string_view& body) {
  const std::size_t most = as_json ? longest_json : longest_body;
  const std::string limit = "expected at most " + std::to_string(most) + " bytes of this type";
  if (request.too_long) return refusal(413, ResourceExhausted, "the body is too long, " + limit, as_json);
  const std::string encoding = lower(request.content_encoding);
  if (encoding.empty() || encoding == "identity") {
    body = request.body;
  } else if (encoding == "gzip" || encoding == "deflate") {
    const Unpacked done = unpack(request.body, most, unpacked);
    if (done == Unpacked::Broken) {
      return refusal(400, InvalidArgument, "the body is not whole, or not compressed with " + encoding, as_json);
    }
    if (done == Unpacked::TooLong) {
      return refusal(413, ResourceExhausted, "the unpacked body is too long, " + limit, as_json);
    }
    body = unpacked;
  } else {
    const std::string why = "the content encoding is " + quoted(request.content_encoding);
    return refusal(415, Unimplemented, why + ", expected gzip, deflate or none", as_json);
  }
  if (body.size() > most) return refusal(413, ResourceExhausted, "the body is too long, " + limit, as_json);
  return std::nullopt;
}

}  // namespace

Receiver::Receiver(Selection selection, double interval_s, Clock clock, Complain complain)
    : selection_(std::move(selection)), series_(interval_s), clock_(std::move(clock)), complain_(std::move(complain)) {
  // It would write a line of its own for each text that is no UTF-8: a client could fill the log.
  (void)google::protobuf::SetLogHandler(nullptr);
}

Answer Receiver::answer(const Request& request) {
  const std::string type = media_type(request.content_type);
  const bool as_json = type != protobuf_type;
  if (request.path != path) {
    return refusal(404, NotFound, "the path is " + quoted(request.path) + ", expected " + path, as_json);
  }
  if (request.method != "POST") {
    return refusal(405, Unimplemented, "the method is " + quoted(request.method) + ", expected POST", as_json);
  }
  if (as_json && type != json_type) {
    const std::string expected = std::string(", expected ") + protobuf_type + " or " + json_type;
    return refusal(415, Unimplemented, "the content type is " + quoted(request.content_type) + expected, true);
  }
  std::string unpacked;
  std::string_view body;
  if (auto refused = body_of(request, as_json, unpacked, body)) return *refused;
  const auto brought = as_json ? read_json(body, selection_) : read_protobuf(body, selection_);
  if (brought) return take_export(*brought, as_json);
  complain_(About::Request, brought.error().message);
  return refusal(400, InvalidArgument, brought.error().message, as_json);
}

Answer Receiver::take_export(const Export& brought, bool as_json) {
  const Taken taken = series_.add(brought, clock_());
  if (taken.rejected > 0) complain_(About::Points, taken.reason);
  found_ = found_ || !brought.points.empty() || brought.rejected > 0;
  if (!found_) complain_of_others(brought);
  if (as_json) {
    nlohmann::json response = nlohmann::json::object();
    if (taken.rejected > 0) {
      response["partialSuccess"] = {{"rejectedDataPoints", std::to_string(taken.rejected)},
                                    {"errorMessage", taken.reason}};
    }
    return {200, json_type, response.dump(-1, ' ', true, replace)};
  }
  proto::ExportMetricsServiceResponse response;
  if (taken.rejected > 0) {
    response.mutable_partial_success()->set_rejected_data_points(static_cast<std::int64_t>(taken.rejected));
    response.mutable_partial_success()->set_error_message(taken.reason);
  }
  return {200, protobuf_type, response.SerializeAsString()};
}

void Receiver::complain_of_others(const Export& brought) {
  std::string names;
  for (const std::string& name : brought.others) names += (names.empty() ? "'" : ", '") + name + "'";
  const std::string wanted = "an export has no histogram '" + selection_.name + "' with the wanted attributes";
  if (names.empty()) return complain_(About::Name, wanted + "; check --name and --attribute");
  complain_(About::Name, wanted + ", but has " + names + "; check --name and --attribute");
}

}  // namespace osml::latency::otlp
