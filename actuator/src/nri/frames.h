// Messages on the socket of a container runtime: ttrpc inside of NRI's multiplexer (pkg/net/multiplex). Both ends send
// frames of two connections, in which messages follow each other: one in which the runtime asks the plugin, one in
// which the plugin asks the runtime.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace osml::nri {

inline constexpr std::uint32_t plugin_connection = 1;   // the runtime asks
inline constexpr std::uint32_t runtime_connection = 2;  // the plugin asks

struct Message {
  enum class Type : std::uint8_t { Request = 1, Response = 2 };
  std::uint32_t connection = plugin_connection;
  std::uint32_t stream = 1;
  Type type = Type::Request;
  std::string payload;

  bool operator==(const Message&) const = default;
};

// As bytes for the socket.
std::string framed(const Message& message);

// Bytes of the socket, in pieces of any size, as messages.
class Unframer {
 public:
  // Input where this is nothing that a runtime says; nothing can be read after that.
  Status feed(std::string_view bytes);
  // The next whole one; those of other types (streams, which NRI has none of) are passed over.
  std::optional<Message> next();

 private:
  Status take_frames();

  std::string bytes_;                             // of frames that are not whole
  std::map<std::uint32_t, std::string> streams_;  // connection -> bytes of its messages
};

}  // namespace osml::nri
