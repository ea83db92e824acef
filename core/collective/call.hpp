// One collective call as a value: what the program asked for.
#pragma once

#include <string>

#include "core/base/types.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

/// An all-reduce of `count` elements. `in` may be `out` (in place), but must not overlap it otherwise.
struct Call {
  const void* in;
  void* out;
  Elements count;
  DType type;
  Op op;
  const char* collective = "";  // its name in the report, a literal
  Nanoseconds began = 0;        // when the program made it

  Bytes bytes() const { return count * size_of(type); }
};

/// Equal on all ranks of a right program; travels in every message.
Fingerprint fingerprint_of(const Call& call);
/// For people: "all-reduce of 100 float32, sum".
std::string describe(const Call& call);

}  // namespace ddl
