// What carries a message between two ranks.
#pragma once

#include <cstdint>

#include "core/reduce/reduce.hpp"

namespace ddl {

enum class Fabric : std::uint8_t { local, wire };  // within a host, between hosts

/// Whether the elements of a message are narrowed: of a step that sends, and of what is expected.
inline bool narrows(const WireFormat& wire, Fabric fabric) {
  return !wire.is_exact() && (fabric == Fabric::wire || wire.where == WireWhere::everywhere);
}

}  // namespace ddl
