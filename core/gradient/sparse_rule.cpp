#include "core/gradient/sparse_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/partition.hpp"

namespace ddl {

Elements chunks_of(Elements count) { return divide_up(count, kChunk); }

Elements chunks_sent(const SparseSettings& settings, Elements chunks, std::uint64_t time) {
  if (!settings.is_on() || time < settings.warm_up) return chunks;
  const std::uint64_t falling = time - settings.warm_up + 1;
  const double fallen =
      settings.warm_up == 0 ? 1 : std::min(1.0, static_cast<double>(falling) / settings.warm_up);
  const double share = std::pow(settings.share, fallen);
  const auto sent = static_cast<Elements>(std::ceil(share * static_cast<double>(chunks)));
  return std::clamp<Elements>(sent, 1, chunks);
}

std::vector<std::uint32_t> choose_chunks(std::span<const float> norms, Elements n) {
  std::vector<std::uint32_t> chunks(norms.size());
  std::iota(chunks.begin(), chunks.end(), 0);
  if (n >= norms.size()) return chunks;
  constexpr float kMost = std::numeric_limits<float>::infinity();
  auto norm_of = [&](std::uint32_t chunk) { return std::isnan(norms[chunk]) ? kMost : norms[chunk]; };
  auto is_before = [&](std::uint32_t a, std::uint32_t b) {
    const float of_a = norm_of(a), of_b = norm_of(b);
    return of_a != of_b ? of_a > of_b : a < b;
  };
  const auto end = chunks.begin() + static_cast<std::ptrdiff_t>(n);
  std::nth_element(chunks.begin(), end, chunks.end(), is_before);
  chunks.erase(end, chunks.end());
  std::sort(chunks.begin(), chunks.end());
  return chunks;
}

}  // namespace ddl
