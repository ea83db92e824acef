#include "core/net/address.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(IpAddress, BothFamiliesAreReadAndWritten) {
  for (const char* text : {"10.1.2.3", "255.255.255.255", "0.0.0.0"}) {
    EXPECT_EQ(parse_address(text).family, 4) << text;
    EXPECT_EQ((Endpoint{parse_address(text), 80}.text()), std::string(text) + ":80");
  }
  for (const char* text : {"fd00::1", "::", "::ffff:10.1.2.3"}) {
    EXPECT_EQ(parse_address(text).family, 6) << text;
    EXPECT_EQ((Endpoint{parse_address(text), 65535}.text()), "[" + std::string(text) + "]:65535");
  }
}

TEST(IpAddress, OtherTextIsNone) {
  for (const char* text : {"", "h1", "10.1.2", "10.1.2.256", "10.1.2.3:80", "fd00::1::2", "[::1]", " ::1"})
    EXPECT_EQ(parse_address(text), IpAddress{}) << text;
}

TEST(IpAddress, NoInterfaceHasNoAddressesAndTheLoopbackNoneForOthers) {
  EXPECT_TRUE(ipv6_addresses_of({}).empty());
  EXPECT_TRUE(ipv6_addresses_of({"lo", "no such interface"}).empty());
}

}  // namespace ddl
