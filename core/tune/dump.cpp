#include "core/tune/dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ddl {

Dump::Dump(const Grid& grid) {
  for (int d = 0; d < grid.dimensions(); ++d)
    dimension_.push_back(fmt::format("{} {}", grid.fanout(d), grid.dimension(d).name));
  clear();
}

void Dump::clear() {
  spent_.assign(dimension_.size(), {});
  original_ = time_ = shortest_ = longest_ = 0;
  calls_ = 0;
}

void Dump::count(Nanoseconds time) {
  shortest_ = calls_ ? std::min(shortest_, time) : time;
  longest_ = std::max(longest_, time);
  time_ += time;
  ++calls_;
}

void Dump::add(Nanoseconds time, const PlanChoice& choice, std::span<const Nanoseconds> dimension_times) {
  count(time);
  auto all = std::accumulate(dimension_times.begin(), dimension_times.end(), Nanoseconds{0});
  for (std::size_t d = 0; d < dimension_times.size() && all > 0; ++d)
    spent_[d][static_cast<std::size_t>(choice.algorithm[d])] +=
        static_cast<double>(time) * static_cast<double>(dimension_times[d]) / static_cast<double>(all);
}

void Dump::add_original(Nanoseconds time) {
  count(time);
  original_ += time;
}

std::string Dump::text() const {
  std::string text = fmt::format("{} calls took {:.1f} us", calls_, static_cast<double>(time_) * 1e-3);
  const char* before = ": ";
  auto part = [&](const std::string& what, double nanoseconds) {
    if (nanoseconds <= 0) return;
    text += fmt::format("{}{} {:.1f} us", before, what, nanoseconds * 1e-3);
    before = ", ";
  };
  for (std::size_t d = 0; d < dimension_.size(); ++d)
    for (std::size_t a = 0; a < kAlgorithms; ++a)
      part(fmt::format("{} {}", dimension_[d], algorithm_name(static_cast<Algorithm>(a))), spent_[d][a]);
  part("the original library", static_cast<double>(original_));
  return text;
}

}  // namespace ddl
