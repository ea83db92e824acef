// RailWatch: whether the rails of a communicator finish their shares together. It looks at a few large calls,
// of any kind, early on, and again ever more rarely: what was measured beside other work, or came from an
// earlier job, may be wrong, and rails change. Pure: what it says depends on the sequence of calls and on
// agreed times alone.
//
// A look is a few calls before which the ranks meet, so that all rails begin together; then the ranks reduce
// times() by maximum, since some hear only a part of what a rail carries, and each calls agreed().
// Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// Whether something has been measured about the rails, by this job or an earlier one.
enum class RailsAre : std::uint8_t { unknown, known };

class RailWatch {
 public:
  static constexpr double kUnit = 1 << 20;  // bytes on all rails, see agreed()

  RailWatch(std::size_t rails, RailsAre known);

  /// Before every large call: whether it belongs to a look.
  bool looks();
  /// How long after the call began each rail was through with its share of the first window, in which all
  /// rails together carry so many bytes; 0: this rank hears nothing over it.
  void record(std::span<const Nanoseconds> rails, double bytes);
  bool must_agree() const { return rounds_ == kRounds; }
  std::span<std::int64_t> times() { return times_; }
  /// What each rail took for its share of kUnit bytes: all the same for rails that finish together. Empty
  /// when they do and something is known about them already, so that there is nothing to learn, and when
  /// nobody has heard anything over one of them.
  std::vector<std::int64_t> agreed();

 private:
  static constexpr std::size_t kRounds = 4;
  std::size_t rails_, rounds_ = 0;
  std::vector<std::int64_t> times_;  // [round][rail]
  std::uint64_t calls_ = 0, next_look_;
  RailsAre known_;
};

}  // namespace ddl
