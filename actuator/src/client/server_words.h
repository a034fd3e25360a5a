// What the server says in its own words when it refuses something.
#pragma once

#include <optional>
#include <string>

namespace osml {

// Of a body {"error": {"message": ..., "hint": ...}}: "message (hint)"; none where it says nothing we understand.
std::optional<std::string> server_message(const std::string& body);

}  // namespace osml
