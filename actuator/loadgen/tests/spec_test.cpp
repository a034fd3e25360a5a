#include "spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace osml::loadgen {
namespace {

using testing::HasSubstr;

TEST(ServiceSpec, IsReadFromItsText) {
  const auto spec =
      parse_service("name=cache,protocol=memcached,address=127.0.0.1:11211,rate=250.5,connections=4,output=/tmp/x");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, "cache");
  EXPECT_EQ(spec->protocol, Protocol::Memcached);
  EXPECT_EQ(ntohs(spec->address.sin_port), 11211);
  EXPECT_DOUBLE_EQ(spec->rate, 250.5);
  EXPECT_EQ(spec->connections, 4U);
  EXPECT_EQ(spec->output, "/tmp/x");
}

TEST(ServiceSpec, SaysInOneSentenceWhatIsWrong) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "name, protocol and address must all be given"},
      {"name=a,protocol=redis", "name, protocol and address must all be given"},
      {"name=a b,protocol=redis,address=127.0.0.1:1", "name 'a b': expected 1 to 63 letters"},
      {"name=a,protocol=ftp,address=127.0.0.1:1", "protocol 'ftp': expected redis, memcached, http or mysql"},
      {"name=a,protocol=http,address=localhost:80", "address 'localhost:80': expected a numeric IPv4"},
      {"name=a,protocol=http,address=127.0.0.1:70000", "address '127.0.0.1:70000': expected"},
      {"name=a,protocol=http,address=127.0.0.1", "address '127.0.0.1': expected"},
      {"name=a,protocol=http,address=127.0.0.1:1,rate=-1", "rate '-1': expected requests per second"},
      {"name=a,protocol=http,address=127.0.0.1:1,rate=nan", "rate 'nan'"},
      {"name=a,protocol=http,address=127.0.0.1:1,rate=1e9", "rate '1e9'"},
      {"name=a,protocol=http,address=127.0.0.1:1,connections=0", "connections '0': expected a whole number from 1"},
      {"name=a,protocol=http,address=127.0.0.1:1,speed=3", "unknown key 'speed': known are name, protocol"},
      {"name=a,protocol=mysql,address=127.0.0.1:1", "protocol mysql needs requests=FILE"},
      {"name=a,protocol=http,address=127.0.0.1:1,requests=/nowhere/x", "'/nowhere/x': the file cannot be read"},
      {"name=a,protocol=redis,address=127.0.0.1:1,requests=/nowhere/x", "only http and mysql take a file"},
      {"redis", "'redis' is not of the form key=value"},
  };
  for (const auto& [text, message] : cases) {
    const auto spec = parse_service(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().kind, ErrorKind::Input);
    EXPECT_THAT(spec.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace osml::loadgen
