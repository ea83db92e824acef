// Which type and operation a reduction function of the program stands for: gloo is given a function, and says
// neither. It is found out by calling the function on a few chosen elements and comparing bits with what our
// kernels make of them; the answer is remembered by the function's address.
//
// Thread safety: all.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/reduce/types.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

struct Reduction {
  DType type;
  Op op;
};

/// Nothing where it is none that we know. Calls `function`.
std::optional<Reduction> recognise(const std::function<ReduceFunction>& function, std::size_t element_size);

class KnownReductions {
 public:
  /// As recognise(), once per function. A function object that holds more than a plain function has no
  /// address to be remembered by: nothing.
  std::optional<Reduction> of(const std::function<ReduceFunction>& function, std::size_t element_size);

 private:
  struct Known {
    FunctionWords words;
    std::size_t element_size;
    std::optional<Reduction> reduction;
  };
  std::mutex mutex_;
  std::vector<Known> known_;
};

}  // namespace ddl::gloo
