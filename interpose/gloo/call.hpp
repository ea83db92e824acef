// GlooCall: a call of gloo's as a value, read from its options.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "core/base/types.hpp"
#include "interpose/front.h"
#include "interpose/gloo/contexts.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

/// What the engine needs to know of a call, once its context is known.
struct GlooCall {
  ddl_gloo_function function;
  std::shared_ptr<Context> context;
  std::chrono::milliseconds timeout;
  std::uint32_t tag;
  // Of all that is brought to an all-reduce, broadcast or reduce, and got of an all-gather.
  std::size_t elements;
  std::size_t element_size;
  const void* in = nullptr;
  void* out = nullptr;
  Rank root = 0;
  const ReduceFunction* reduce = nullptr;
  std::size_t in_bytes = 0;  // of an all-gather that has an input

  Bytes bytes() const { return elements * element_size; }
};

/// Nothing where these are no options that we know, which is said once. `all_reduce` tells which gloo is
/// called.
std::optional<GlooCall> read_call(ddl_gloo_function function, const void* options, Original all_reduce);

/// In the report.
const char* name_of(ddl_gloo_function function);

/// Of calls that meet: those of different functions may have the same tag. Tags that are counted up give keys
/// that lie together.
inline std::uint64_t key_of(const GlooCall& call) { return std::uint64_t{call.function} << 32 | call.tag; }
static_assert(DDL_GLOO_FUNCTIONS <= 8);

}  // namespace ddl::gloo
