// The program's reduction functions: which type and operation they are, remembered by the functions'
// addresses; and calls that are made with a function that is none of ours.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/reduce/recognise.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

/// Thread safety: all.
class KnownReductions {
 public:
  /// As recognise(), once per function. Function objects other than plain functions have no address to be
  /// remembered by: nothing.
  std::optional<Reduction> of(const ReduceFunction& function, std::size_t element_size);

 private:
  using Plain = void (*)(void* out, const void* a, const void* b, std::size_t elements);
  struct Known {
    Plain function;
    std::size_t element_size;
    std::optional<Reduction> reduction;
  };
  std::mutex mutex_;
  std::vector<Known> known_;
};

/// One call with such a function, from before it starts until it is done. gloo asks nothing of these
/// functions that the engine does not: they commute, and any part of the elements may be reduced apart.
class OwnReductionCall {
 public:
  explicit OwnReductionCall(const ReduceFunction& function) : function_(function) {}
  /// Of ddl_collective_call, with this as context. What the function throws stays here; then it is not called
  /// again.
  static void combine(void* self, const void* in, void* inout, std::uint64_t count) noexcept;
  /// What it has thrown; "" where it has not. The results of this and other ranks are then wrong.
  const std::string& thrown() const { return thrown_; }

 private:
  const ReduceFunction& function_;
  std::string thrown_;
};

}  // namespace ddl::gloo
