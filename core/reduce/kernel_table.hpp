// Internal: what one instruction set offers to reduce.cpp, and what the tests compare between instruction
// sets.
//
// The rule a user can break: call a table only if it is in runnable_kernels(), else the CPU may not know its
// instructions. Tables are constants; their functions are pure and thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/reduce/types.hpp"

namespace ddl::kernels {

/// dst = sources[0] op ... op sources[n-1]; the contract of ddl::reduce.
using Fold = void(void* dst, const void* const* sources, std::size_t n_sources, Elements count);

/// `count` elements from one type to another. No overlap.
using Convert = void(void* to, const void* from, Elements count);
/// The types that convert: float32 and float64.
inline constexpr int kWideTypes = 2;
constexpr int wide_index(DType type) { return type == DType::float64; }

struct Table {
  const char* name;
  Fold* fold[kDTypes][kOps];  // null where the operation is not defined on the type
  void (*half_to_float)(float* to, const void* from, Elements count);
  void (*float_to_half)(void* to, const float* from, Elements count);
  void (*bfloat16_to_float)(float* to, const void* from, Elements count);
  void (*float_to_bfloat16)(void* to, const float* from, Elements count);
  Convert* narrow[kWideTypes][kWireTypes];  // null for WireType::exact; the contract of ddl::narrow
  Convert* widen[kWideTypes][kWireTypes];
  void (*stream)(void* to, const void* from, std::size_t bytes);  // the contract of ddl::stream
  void (*stream_and_keep)(void* to, void* kept, const void* from, std::size_t bytes);
};

namespace baseline {
extern const Table kTable;
}
namespace avx2 {
extern const Table kTable;
}
namespace avx512 {
extern const Table kTable;
}

/// The tables this CPU (and its operating system) can run, slowest first. Never empty.
std::span<const Table* const> runnable_kernels();

}  // namespace ddl::kernels
