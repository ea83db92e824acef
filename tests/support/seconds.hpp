// A second, for tests that set the clock themselves.
#pragma once

#include "core/base/types.hpp"

namespace ddl {

inline constexpr Nanoseconds kSecond = 1'000'000'000;

}  // namespace ddl
