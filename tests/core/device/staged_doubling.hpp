// What the tests of staged calls do with them: chunks of 1 KiB, in which floats are doubled.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "core/device/staged_call.hpp"

namespace ddl::test {

using Floats = std::vector<float>;

inline StagedOptions small(std::uint32_t chunks = 3,
                           FlagOrdering ordering = FlagOrdering::kStreamMemoryOperations) {
  StagedOptions options;
  options.chunk_bytes = 1024;
  options.chunks = chunks;
  options.most_blocks = 4;
  options.ordering = ordering;
  return options;
}

inline Floats ramp(std::size_t count, float first) {
  Floats values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// out = 2 * in, for what an all-reduce of two equal ranks would do.
inline std::string twice(const StagedChunk& chunk) {
  auto* in = reinterpret_cast<const float*>(chunk.in.data());
  auto* out = reinterpret_cast<float*>(chunk.out.data());
  for (std::size_t i = 0; i < chunk.in.size() / sizeof(float); ++i) out[i] = 2 * in[i];
  return {};
}

inline Floats doubled(Floats values) {
  for (float& value : values) value *= 2;
  return values;
}

}  // namespace ddl::test
