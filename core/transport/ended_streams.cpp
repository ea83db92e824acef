#include "core/transport/ended_streams.hpp"

#include <algorithm>
#include <iterator>

namespace ddl {

void EndedStreams::add(const LostStream& stream, std::uint64_t next) {
  if (!next_.try_emplace(stream, next).second) return;
  const auto first = next_.lower_bound({stream.from, stream.rail, 0});
  const auto last = next_.upper_bound({stream.from, stream.rail, stream.epoch});
  if (std::distance(first, last) > static_cast<std::ptrdiff_t>(kKept)) next_.erase(first);
}

bool EndedStreams::is_over(const LostStream& stream) const {
  const auto found = next_.lower_bound(stream);
  return found != next_.end() && found->first.from == stream.from && found->first.rail == stream.rail;
}

bool EndedStreams::lacks(const LostStream& stream, std::uint64_t frame) const {
  const auto known = next_.find(stream);
  return known == next_.end() || frame >= known->second;
}

void EndedStreams::took(const LostStream& stream, std::uint64_t frame) {
  const auto known = next_.find(stream);
  if (known != next_.end()) known->second = std::max(known->second, frame + 1);
}

}  // namespace ddl
