// Element types and operations the engine reduces. Everything else stays with the original library.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/types.hpp"

namespace ddl {

enum class DType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  bytes16  // without kernels: elements of a reduction of the caller's own, see Call::own
};
inline constexpr int kDTypes = 12;  // with kernels

/// MPI's predefined operations. Logical ones exist for integers, bitwise ones too; MPI forbids both for
/// floats.
enum class Op : std::uint8_t { sum, prod, min, max, land, lor, lxor, band, bor, bxor };
inline constexpr int kOps = 10;

constexpr Bytes size_of(DType type) {
  constexpr Bytes sizes[kDTypes + 1] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 16};
  return sizes[static_cast<int>(type)];
}

constexpr std::string_view name_of(DType type) {
  constexpr std::string_view names[kDTypes + 1] = {"int8",    "int16",   "int32",   "int64",   "uint8",
                                                   "uint16",  "uint32",  "uint64",  "float16", "bfloat16",
                                                   "float32", "float64", "16 bytes"};
  return names[static_cast<int>(type)];
}

constexpr std::string_view name_of(Op op) {
  constexpr std::string_view names[kOps] = {"sum", "prod", "min",  "max", "land",
                                            "lor", "lxor", "band", "bor", "bxor"};
  return names[static_cast<int>(op)];
}

constexpr bool is_floating(DType type) { return type >= DType::float16; }

/// What elements of that size are to the engine in a reduction of the caller's own, which only tells how
/// large they are; nothing: it cannot move them.
constexpr std::optional<DType> layout_of(Bytes element) {
  switch (element) {
    case 1:
      return DType::uint8;
    case 2:
      return DType::uint16;
    case 4:
      return DType::uint32;
    case 8:
      return DType::uint64;
    case 16:
      return DType::bytes16;
    default:
      return std::nullopt;
  }
}

/// Whether the engine (and MPI) define `op` on `type`.
constexpr bool is_reducible(DType type, Op op) { return !is_floating(type) || op <= Op::max; }

}  // namespace ddl
