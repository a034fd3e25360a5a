// Addresses that the operator gives: http and https only.
#pragma once

#include <optional>
#include <string>

namespace osml {

// What is wrong with the address ("expected ..."), none where it is good. Credentials do not belong into it: they would
// end up in logs.
std::optional<std::string> url_error(const std::string& url);

// The address as it may be shown in a message: what stands before the last '@' of its authority is "***".
std::string without_credentials(const std::string& url);

std::string host_of(const std::string& url);
std::string with_host(const std::string& url, const std::string& host);

}  // namespace osml
