// RailWatch: whether the rails of a communicator finish their shares together. It looks at a few large calls,
// of any kind, early on, and again ever more rarely: what was measured beside other work, or came from an
// earlier job, may be wrong, and rails change. Pure: what it says depends on the sequence of calls and on
// what the ranks have agreed on alone.
//
// A look is a few calls before which the ranks meet, so that all rails begin together; then the ranks reduce
// times() by maximum, since some hear only a part of what a rail carries, and leans() by sum, and each calls
// agreed().
//
// A rail is slow if the ranks see it so on the whole, not only if the last of them does: where processors are
// busy, the last one is who waited for one (16 MiB as int8 beside another job, two equal rails: in 8 of 30
// jobs one seemed 1.6 times as fast by the last rank alone, in none of 54 by all). But the rail of one host
// may be slow, which not all ranks see: it counts when it has seemed so in several looks in a row.
//
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// Of each rail, bytes per second. Empty: nothing has been measured.
using RailRates = std::vector<double>;

class RailWatch {
 public:
  static constexpr double kUnit = 1 << 20;  // bytes on all rails, see times()

  /// `known`: what an earlier job has measured.
  RailWatch(std::size_t rails, RailRates known);

  /// Before every large call: whether it belongs to a look.
  bool looks();
  /// How long after the call began each rail was through with its share of the first window, in which all
  /// rails together carry so many bytes; 0: this rank hears nothing over it.
  void record(std::span<const Nanoseconds> rails, double bytes);
  bool must_agree() const { return rounds_ == kRounds; }
  /// What each rail took for its share of kUnit bytes, in each round.
  std::span<std::int64_t> times() { return times_; }
  /// By how much each rail seems slower to a rank than all rails, and how many ranks can tell, in each round.
  std::span<std::int64_t> leans() { return leans_; }
  /// The rates that rails are to be shared by from now on; `share`: the part of the bytes that each of them
  /// carried in this look. Nothing: as before, since they finish together and something is known about them
  /// already, or since nobody has heard anything over one of them.
  std::optional<RailRates> agreed(std::span<const double> share);

 private:
  static constexpr std::size_t kRounds = 4;
  bool are_alike_to_all(std::size_t round) const;
  bool differ(std::span<const std::int64_t> shortest);
  std::span<const std::int64_t> times_in(std::size_t round) const {
    return std::span(times_).subspan(round * rails_, rails_);
  }

  std::size_t rails_, rounds_ = 0;
  std::vector<std::int64_t> times_;  // [round][rail]
  std::vector<std::int64_t> leans_;  // [round][rail, then ranks]: sums of logarithms, in units of kLeanUnit
  std::uint64_t calls_ = 0, next_look_;
  RailRates rates_;
  std::size_t suspect_ = 0;  // the rail that seemed slowest to the last ranks alone,
  int suspected_ = 0;        // in so many looks in a row
};

}  // namespace ddl
