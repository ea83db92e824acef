#include "core/transport/lost_rails.hpp"

#include <algorithm>

namespace ddl {
namespace {

constexpr Nanoseconds kLongestPause = 64'000'000'000;

}  // namespace

// One that is lost soon after it was tried again has not recovered: its pauses go on growing.
bool LostRails::lose(Rank peer, std::size_t lane, Nanoseconds now, Nanoseconds pause) {
  Past& past = past_[{peer, lane}];
  if (is_lost(peer, lane)) return false;
  const bool is_recent = past.times > 0 && now - past.lost_at < 4 * past.pause;
  past.pause = is_recent ? std::min(2 * past.pause, kLongestPause) : pause;
  past.lost_at = now;
  ++past.times;
  lost_[{peer, lane}] = now + past.pause;
  return true;
}

std::optional<std::size_t> LostRails::carrier(Rank peer, std::size_t lane) const {
  for (std::size_t i = 0; i < lanes_; ++i)
    if (std::size_t other = (lane + i) % lanes_; !is_lost(peer, other)) return other;
  return std::nullopt;
}

std::vector<std::pair<Rank, std::size_t>> LostRails::due(Nanoseconds now) {
  std::vector<Key> keys;
  for (auto& [key, when] : lost_) {
    if (when > now) continue;
    keys.push_back(key);
    Past& past = past_[key];
    past.pause = std::min(2 * past.pause, kLongestPause);
    when = now + past.pause;
  }
  return keys;
}

std::uint32_t LostRails::times(Rank peer, std::size_t lane) const {
  auto found = past_.find({peer, lane});
  return found == past_.end() ? 0 : found->second.times;
}

}  // namespace ddl
