// LostRails: which rails do not carry to which peers, what carries for them, and when they are tried again.
//
// A peer is never without a rail because one is slow: what is only avoided is not taken away when it is the
// last that carries there, and carries again when the others break.
//
// Pure. Thread safety: none.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// What has become of a rail: it does not carry to a peer; nobody knows how many others it does not reach; or
/// it is slow, and better left alone by all.
enum class Loss : std::uint32_t { of_a_peer, of_several, of_speed };

class LostRails {
 public:
  /// `broken`: nothing can go there. `avoided`: something could.
  enum class Kind : std::uint8_t { broken, avoided };

  explicit LostRails(std::size_t rails) : rails_(rails) {}

  bool any() const { return !lost_.empty(); }
  /// Whether that rail is lost to anybody.
  bool any_on(std::size_t rail) const;
  bool is_lost(Rank peer, std::size_t rail) const { return lost_.contains({peer, rail}); }
  /// It is tried again after `pause`. False: nothing has to go another way, since it was lost before, or is
  /// the last that carries to that peer and only to be avoided.
  bool lose(Rank peer, std::size_t rail, Kind kind, Nanoseconds now, Nanoseconds pause);
  /// It carries again.
  void regain(Rank peer, std::size_t rail) { lost_.erase({peer, rail}); }
  /// The rail that carries what is sent to that peer on `rail`; none where nothing does.
  std::optional<std::size_t> carrier(Rank peer, std::size_t rail) const;
  /// No other rail carries to that peer.
  bool is_last(Rank peer, std::size_t rail) const { return carrier(peer, rail + 1) == rail; }
  /// No other rail could carry to that peer: they are broken.
  bool is_last_resort(Rank peer, std::size_t rail) const;
  /// Those that are to be tried again now. Each time it takes twice as long until the next.
  std::vector<std::pair<Rank, std::size_t>> due(Nanoseconds now);
  /// How often it has been lost.
  std::uint32_t times(Rank peer, std::size_t rail) const;

 private:
  using Key = std::pair<Rank, std::size_t>;
  struct Lost {
    Kind kind;
    Nanoseconds due;
  };
  std::size_t rails_;
  std::map<Key, Lost> lost_;
  struct Past {
    std::uint32_t times = 0;
    Nanoseconds pause = 0;  // before it is tried again
    Nanoseconds lost_at = 0;
  };
  std::map<Key, Past> past_;
};

}  // namespace ddl
