#include "core/transport/lost_rails.hpp"

#include <algorithm>

namespace ddl {
namespace {

constexpr Nanoseconds kLongestPause = 64'000'000'000;

}  // namespace

bool LostRails::any_on(std::size_t rail) const {
  return std::any_of(lost_.begin(), lost_.end(), [&](const auto& one) { return one.first.second == rail; });
}

// One that is lost soon after it was tried again has not recovered: its pauses go on growing. Who hears of a
// slow rail may have seen its connections end before: it leaves it alone as long as the others.
bool LostRails::lose(Rank peer, std::size_t rail, Kind kind, Nanoseconds now, Nanoseconds pause) {
  if (auto known = lost_.find({peer, rail}); known != lost_.end()) {
    if (kind == Kind::broken)
      known->second.kind = kind;
    else
      known->second.due = std::max(known->second.due, now + pause);
    return false;
  }
  if (kind == Kind::avoided && is_last(peer, rail)) return false;
  Past& past = past_[{peer, rail}];
  const bool is_recent = past.times > 0 && now - past.lost_at < 4 * past.pause;
  past.pause = is_recent ? std::min(2 * past.pause, kLongestPause) : pause;
  past.lost_at = now;
  ++past.times;
  lost_[{peer, rail}] = {kind, now + past.pause};
  if (!carrier(peer, rail))
    std::erase_if(
        lost_, [&](const auto& one) { return one.first.first == peer && one.second.kind == Kind::avoided; });
  return true;
}

std::optional<std::size_t> LostRails::carrier(Rank peer, std::size_t rail) const {
  for (std::size_t i = 0; i < rails_; ++i)
    if (std::size_t other = (rail + i) % rails_; !is_lost(peer, other)) return other;
  return std::nullopt;
}

bool LostRails::is_last_resort(Rank peer, std::size_t rail) const {
  for (std::size_t other = 0; other < rails_; ++other) {
    auto lost = lost_.find({peer, other});
    if (other != rail && (lost == lost_.end() || lost->second.kind == Kind::avoided)) return false;
  }
  return true;
}

std::vector<std::pair<Rank, std::size_t>> LostRails::due(Nanoseconds now) {
  std::vector<Key> keys;
  for (auto& [key, lost] : lost_) {
    if (lost.due > now) continue;
    keys.push_back(key);
    Past& past = past_[key];
    past.pause = std::min(2 * past.pause, kLongestPause);
    lost.due = now + past.pause;
  }
  return keys;
}

std::uint32_t LostRails::times(Rank peer, std::size_t rail) const {
  auto found = past_.find({peer, rail});
  return found == past_.end() ? 0 : found->second.times;
}

}  // namespace ddl
