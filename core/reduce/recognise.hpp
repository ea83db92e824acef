// Which type and operation somebody's reduction function stands for: gloo is given a function and says
// neither, and MPI programs make operations of their own for types that MPI does not have. It is found out by
// calling the function on a few chosen elements and comparing bits with what our kernels make of them.
#pragma once

#include <functional>
#include <optional>

#include "core/reduce/types.hpp"

namespace ddl {

struct Reduction {
  DType type;
  Op op;
};

/// out[i] = a[i] op b[i] for so many elements.
using ReduceFunction = std::function<void(void* out, const void* a, const void* b, std::size_t elements)>;

/// Nothing where it is none that we know. Calls `function` on eight elements once, and some twenty times
/// where that is like one.
std::optional<Reduction> recognise(const ReduceFunction& function, Bytes element_size);

}  // namespace ddl
