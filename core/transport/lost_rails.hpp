// LostRails: which rails do not carry to which peers, what carries for them, and when they are tried again.
// Pure. Thread safety: none.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class LostRails {
 public:
  explicit LostRails(std::size_t lanes) : lanes_(lanes) {}

  bool any() const { return !lost_.empty(); }
  bool is_lost(Rank peer, std::size_t lane) const { return lost_.contains({peer, lane}); }
  /// It is tried again after `pause`. False: it was lost before.
  bool lose(Rank peer, std::size_t lane, Nanoseconds now, Nanoseconds pause);
  /// It carries again.
  void regain(Rank peer, std::size_t lane) { lost_.erase({peer, lane}); }
  /// The lane that carries what is sent to that peer on `lane`; none where nothing does.
  std::optional<std::size_t> carrier(Rank peer, std::size_t lane) const;
  /// Those that are to be tried again now. Each time it takes twice as long until the next.
  std::vector<std::pair<Rank, std::size_t>> due(Nanoseconds now);
  /// How often it has been lost.
  std::uint32_t times(Rank peer, std::size_t lane) const;

 private:
  using Key = std::pair<Rank, std::size_t>;
  std::size_t lanes_;
  std::map<Key, Nanoseconds> lost_;  // and when they are due
  struct Past {
    std::uint32_t times = 0;
    Nanoseconds pause = 0;  // before it is tried again
    Nanoseconds lost_at = 0;
  };
  std::map<Key, Past> past_;
};

}  // namespace ddl
