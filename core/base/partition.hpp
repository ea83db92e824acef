// The one place of partition arithmetic: how a range of elements is cut into parts.
#pragma once

#include <algorithm>

#include "core/base/types.hpp"

namespace ddl {

struct Range {
  Elements first = 0;
  Elements count = 0;
  friend bool operator==(const Range&, const Range&) = default;
};

/// Part `index` of `parts` of a range, cut at multiples of `grain` elements where there are enough of them.
/// The parts cover the range without gap or overlap, in order; sizes differ by at most one grain (the last
/// part may be shorter). Parts of a range smaller than parts × grain are cut at single elements, so that
/// nobody is left idle.
constexpr Range part_of(Range whole, std::uint64_t index, std::uint64_t parts, Elements grain = 1) {
  if (whole.count < parts * grain) grain = 1;
  Elements grains = whole.count / grain;
  auto boundary = [&](std::uint64_t i) {
    if (i == parts) return whole.count;
    Elements base = grains / parts, extra = grains % parts;
    return (base * i + std::min<Elements>(i, extra)) * grain;
  };
  Elements from = boundary(index);
  return {whole.first + from, boundary(index + 1) - from};
}

/// What processors move between caches at once, on all that this runs on.
inline constexpr Bytes kCacheLine = 64;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0); }
constexpr std::uint64_t round_up(std::uint64_t a, std::uint64_t b) { return divide_up(a, b) * b; }

}  // namespace ddl
