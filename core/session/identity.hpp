// Identities of communicators: numbers that all members of a communicator derive alike without talking, and
// that no other communicator of the job has, but for accidents of 2^-64.
#pragma once

#include "core/base/types.hpp"

namespace ddl {

/// A permutation of all 64-bit numbers that leaves no pattern (splitmix64).
constexpr CommId mix(CommId x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Equal for equal numbers: of the communicator it comes from (0: none), of the creation there, and of one of
/// several of the same creation.
constexpr CommId identity_of(CommId parent, std::uint64_t number, std::uint64_t which) {
  return mix(mix(mix(parent) ^ number) ^ which);
}

}  // namespace ddl
