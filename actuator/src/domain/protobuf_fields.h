// The fields of a protobuf message one after the other, without an object of the message: two bytes of an empty message
// inside of another would become an object of a hundred.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace osml {

struct ProtobufField {
  int number = 0;
  std::string_view bytes;   // of a message or a text
  std::uint64_t value = 0;  // of a whole number
};

class ProtobufFields {
 public:
  // The bytes must live longer.
  explicit ProtobufFields(std::string_view message);
  // None at the end, and where the bytes are no message. Numbers of 4 and 8 bytes come without their value.
  std::optional<ProtobufField> next();
  // What next() ended with. Only after it.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  bool read(ProtobufField& field);

  std::string_view message_;
  google::protobuf::io::CodedInputStream in_;
  bool broken_ = false;
};

// Takes a message off the front of several that have their length before them. None where one is cut off.
std::optional<std::string_view> take_delimited(std::string_view& messages);

}  // namespace osml
