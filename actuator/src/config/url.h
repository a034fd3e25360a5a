// Addresses that the operator gives: http and https only.
#pragma once

#include <optional>
#include <string>

namespace osml {

// What is wrong with the address ("expected ..."), none where it is good. Credentials do not belong into it: they would
// end up in logs. `instead` says what to do about them.
std::optional<std::string> url_error(const std::string& url,
                                     const std::string& instead = "the agent asks this address without credentials");
// The same of an address that the agent appends paths to.
std::optional<std::string> base_url_error(const std::string& url, const std::string& instead);

// The address as it may be shown in a message: what stands before the last '@' of its authority is "***".
std::string without_credentials(const std::string& url);

std::string host_of(const std::string& url);
std::string with_host(const std::string& url, const std::string& host);

}  // namespace osml
