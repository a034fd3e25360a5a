#include "nri/frames.h"

#include <algorithm>

namespace osml::nri {

namespace {

constexpr std::size_t frame_head = 8;     // connection, length
constexpr std::size_t message_head = 10;  // length, stream, type, flags
constexpr std::size_t longest_message = 4U << 20U;
// The other end reads a frame into a buffer of 4096 bytes, and ends the connection where it does not fit.
constexpr std::size_t longest_frame = 4096;
constexpr char remote_closed = 1;  // a request that no stream follows

void put_u32(std::string& to, std::size_t value) {
  constexpr unsigned byte = 0xffU;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) to += static_cast<char>((value >> shift) & byte);
}

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < sizeof(value); ++i) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

Error nonsense(const std::string& what) { return {ErrorKind::Input, "the runtime sends " + what, 0}; }

}  // namespace

std::string framed(const Message& message) {
  std::string text;
  put_u32(text, message.payload.size());
  put_u32(text, message.stream);
  text += static_cast<char>(message.type);
  text += message.type == Message::Type::Request ? remote_closed : '\0';
  text += message.payload;
  std::string frames;
  for (std::size_t at = 0; at < text.size(); at += longest_frame) {
    const std::size_t length = std::min(longest_frame, text.size() - at);
    put_u32(frames, message.connection);
    put_u32(frames, length);
    frames.append(text, at, length);
  }
  return frames;
}

Status Unframer::feed(std::string_view bytes) {
  bytes_ += bytes;
  return take_frames();
}

Status Unframer::take_frames() {
  std::size_t at = 0;
  while (bytes_.size() - at >= frame_head) {
    const std::uint32_t connection = u32_at(bytes_, at);
    const std::size_t length = u32_at(bytes_, at + 4);
    if (connection != plugin_connection && connection != runtime_connection) {
      return nonsense("a frame of connection " + std::to_string(connection) + ", expected 1 or 2");
    }
    if (length > longest_message + message_head) {
      return nonsense("a frame of " + std::to_string(length) + " bytes, expected 4 MiB at most");
    }
    if (bytes_.size() - at - frame_head < length) break;
    std::string& stream = streams_[connection];
    stream.append(bytes_, at + frame_head, length);
    if (stream.size() >= message_head && u32_at(stream, 0) > longest_message) {
      return nonsense("a message of " + std::to_string(u32_at(stream, 0)) + " bytes, expected 4 MiB at most");
    }
    at += frame_head + length;
  }
  bytes_.erase(0, at);
  return done();
}

std::optional<Message> Unframer::next() {
  for (auto& [connection, stream] : streams_) {
    while (stream.size() >= message_head) {
      const std::size_t length = u32_at(stream, 0);
      if (stream.size() - message_head < length) break;
      const auto type = static_cast<unsigned char>(stream[8]);
      Message message{connection, u32_at(stream, 4), Message::Type::Request, stream.substr(message_head, length)};
      stream.erase(0, message_head + length);
      if (type != 1 && type != 2) continue;
      message.type = static_cast<Message::Type>(type);
      return message;
    }
  }
  return std::nullopt;
}

}  // namespace osml::nri
