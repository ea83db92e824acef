// ReduceCopy: what has arrived becomes part of the result, in one pass over the memory. And its counterpart,
// the staging of what others will read.
#pragma once

#include <span>

#include "core/base/types.hpp"
#include "core/collective/call.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

enum class Store : std::uint8_t { cached, streamed };  // streamed: past the cache, see ddl::stream

/// Where elements travel narrower than they are in memory.
struct Narrowing {
  WireFormat wire;                  // not exact
  std::span<const bool> is_narrow;  // per source: it is as it travels
  bool rounds;                      // the result, to what can travel
  std::byte* travels;               // a place for the result as it travels, or null
};

struct ReduceCopy {
  DType type;
  Op op;
  std::span<const void*> sources;  // folded in this order; one: copied. Used up by apply().
  std::byte* out;  // may be one of the sources; null: a fold of which only `forward` is wanted
  // A second place for the result, or null: a block that peers read, or one of the sources.
  std::byte* forward;
  Elements count;
  Store store;            // how `out` is written; `forward` is always cached, it is read at once
  OwnReduction own = {};  // in place of `op`
  const Narrowing* narrowing = nullptr;  // null: all is as in memory; else `own` is empty
};

/// Bytes moved per byte of result, beside reading the sources: cached 2 (the cache reads a line before it is
/// written), streamed 1, forward 1 more, which comes from the first-level cache.
void apply(const ReduceCopy& reduce_copy);

/// Copies elements that travel like that to a block that a peer is about to read; `streamed`: they come from
/// memory.
void stage(const WireFormat& wire, std::byte* block, const std::byte* from, Elements count, Store store);

}  // namespace ddl
