// Sizes, times and factors as --explain writes them.
#pragma once

#include <string>

#include "core/base/types.hpp"

namespace ddl {

/// "64 KiB"
std::string size_text(Bytes bytes);
/// "1.5 ms"
std::string time_text(double seconds);
/// "1.30 times as long", "0.50 of the time", "as long"
std::string times_text(double other, double ours);

}  // namespace ddl
