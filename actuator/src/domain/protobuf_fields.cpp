#include "domain/protobuf_fields.h"

#include <google/protobuf/wire_format_lite.h>

namespace osml {

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

const std::uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
}

// What stands behind a length. None where there is less than that.
std::optional<std::string_view> take_bytes(CodedInputStream& in, std::string_view all) {
  std::uint64_t length = 0;
  if (!in.ReadVarint64(&length)) return std::nullopt;
  const auto at = static_cast<std::size_t>(in.CurrentPosition());
  if (length > all.size() - at || !in.Skip(static_cast<int>(length))) return std::nullopt;
  return all.substr(at, static_cast<std::size_t>(length));
}

}  // namespace

ProtobufFields::ProtobufFields(std::string_view message)
    : message_(message), in_(data_of(message), static_cast<int>(message.size())) {}

bool ProtobufFields::read(ProtobufField& field) {
  const std::uint32_t tag = in_.ReadTag();
  field.number = WireFormatLite::GetTagFieldNumber(tag);
  if (field.number == 0) return false;
  switch (WireFormatLite::GetTagWireType(tag)) {
    case WireFormatLite::WIRETYPE_VARINT:
      return in_.ReadVarint64(&field.value);
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
      const auto bytes = take_bytes(in_, message_);
      field.bytes = bytes.value_or(std::string_view());
      return bytes.has_value();
    }
    default:
      return WireFormatLite::SkipField(&in_, tag);
  }
}

std::optional<ProtobufField> ProtobufFields::next() {
  if (broken_ || static_cast<std::size_t>(in_.CurrentPosition()) == message_.size()) return std::nullopt;
  ProtobufField field;
  broken_ = !read(field);
  return broken_ ? std::nullopt : std::optional(field);
}

std::optional<std::string_view> take_delimited(std::string_view& messages) {
  CodedInputStream in(data_of(messages), static_cast<int>(messages.size()));
  const auto message = take_bytes(in, messages);
  if (message) messages.remove_prefix(static_cast<std::size_t>(in.CurrentPosition()));
  return message;
}

}  // namespace osml
