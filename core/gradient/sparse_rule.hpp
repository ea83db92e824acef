// Coarse-grained sparse all-reduce: what is decided, and when. A gradient is cut into chunks of equal size;
// of each, the sum over all ranks of its L1 norms is known to all of them, and the chunks with the largest
// travel. So all ranks have the same list, and no indices travel.
//
// Source: Sun et al., "Optimizing network performance for distributed DNN training on GPU clusters:
// ImageNet/AlexNet training in 1.5 minutes" (2019), coarse-grained sparse communication.
//
// Thread safety: pure functions and values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/sparse_settings.hpp"
#include "core/base/types.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

/// Elements of a chunk.
inline constexpr Elements kChunk = 1024;

/// Whether all-reduces of that type and operation can be sparse.
inline bool can_be_sparse(DType type, Op op) {
  return op == Op::sum && (type == DType::float32 || type == DType::float64);
}

/// Chunks of so many elements, the last of which may be shorter.
Elements chunks_of(Elements count);
/// How many of them travel the n-th time (from 0) that this gradient is sent: all of them in the warm-up,
/// then a share that falls by the same factor each time until, after as many times again, it is the one asked
/// for. At least 1.
Elements chunks_sent(const SparseSettings& settings, Elements chunks, std::uint64_t time);
/// The `n` chunks with the largest norms, in order; of equal ones the first. One that is not a number is
/// larger than all others: it must be seen.
std::vector<std::uint32_t> choose_chunks(std::span<const float> norms, Elements n);

}  // namespace ddl
