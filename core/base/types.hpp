// The words of the engine as types. Sizes are unsigned and 64 bits wide everywhere: a buffer may exceed 2^31
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddl {

using Rank = std::int32_t;       // index of a process in a communicator or in the job; the context says which
using HostIndex = std::int32_t;  // index of a host in the job, in order of its first rank
using Elements = std::uint64_t;  // a number of elements of some DType
using Bytes = std::uint64_t;     // a size or an offset in bytes
using Seq = std::uint32_t;       // number of a collective on one communicator, from 0
using CommId = std::uint64_t;    // identity of a communicator, the same on all its members
using Fingerprint = std::uint32_t;  // hash of what must be equal on all ranks of one call
using Nanoseconds = std::int64_t;

/// What floats of 32 and 64 bits travel as; exact: as what they are.
enum class WireType : std::uint8_t { exact, bfloat16, float16, int8 };
inline constexpr int kWireTypes = 4;
constexpr std::string_view name_of(WireType type) {
  constexpr std::string_view names[kWireTypes] = {"exact", "bfloat16", "float16", "int8"};
  return names[static_cast<int>(type)];
}

/// Where they do: between hosts, or between all ranks.
enum class WireWhere : std::uint8_t { between, everywhere };
inline constexpr int kWireWheres = 2;
constexpr std::string_view name_of(WireWhere where) {
  return where == WireWhere::between ? "between" : "everywhere";
}

}  // namespace ddl
