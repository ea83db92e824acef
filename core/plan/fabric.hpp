// What carries a message between two ranks.
#pragma once

#include <cstdint>

namespace ddl {

enum class Fabric : std::uint8_t { local, wire };  // within a host, between hosts

}  // namespace ddl
