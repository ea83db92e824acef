// Numbers that no other process guesses or has by accident.
#pragma once

#include <cstdint>
#include <random>

namespace ddl {

inline std::uint64_t random_number() {
  std::random_device random;
  const std::uint64_t high = random();
  return high << 32 | random();
}

}  // namespace ddl
