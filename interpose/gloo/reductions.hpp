// Types and operations of the program's reduction functions, remembered by the functions' addresses.
//
// Thread safety: all.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "core/reduce/recognise.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

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

}  // namespace ddl::gloo
