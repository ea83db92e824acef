// Which rails are too slow to be used. Pure.
//
// StreamPace: one stream has more to send than it can in two seconds, or sends nothing at all, while another
// to that peer has nothing to do. That is noticed with a single peer, and where it has always been so.
//
// SlowRails: which rail is still at work while another has long been through with as much.
//
// The ranks share a buffer over the rails so that all are through together. When one has become much slower
// the others wait for it: each call takes as long as its part. Then the job is better off without it: at a
// third of the speed of the other of two, by 1.5.
//
// That says nothing while a rail does not carry to some peer: another carries its part as well and looks
// slow.
//
// Thread safety: none.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

/// What a stream has carried, or several have together.
struct Carried {
  Bytes acknowledged = 0;  // in all
  Bytes backlog = 0;       // not yet
  Nanoseconds waited_for_reader = 0;
  // Of the backlog: of streams that have no more than a reader may have without saying so at once. It is no
  // work.
  Bytes untold = 0;

  static Carried by_stream(Bytes acknowledged, Bytes backlog, Nanoseconds waited_for_reader);
  /// Nothing is left to do.
  bool is_through() const { return backlog == untold; }
  void add(const Carried& other) {
    acknowledged += other.acknowledged;
    backlog += other.backlog;
    waited_for_reader += other.waited_for_reader;
    untold += other.untold;
  }
};

class StreamPace {
 public:
  struct Sample : Carried {
    bool is_other_free = false;
  };
  /// What `passed` since the last one. Bytes per second, where it has been too slow for several in a row.
  std::optional<double> inspect(const Sample& sample, Nanoseconds passed);

 private:
  Sample before_;
  int slow_ = 0;  // in a row
};

class SlowRails {
 public:
  /// Of all streams on it: what goes around a ring goes to another peer on each rail.
  struct Load : Carried {
    bool is_usable = false;
    bool is_whole = true;  // to all peers, in both directions
  };
  struct Slow {
    std::size_t rail;
    Bytes acknowledged;  // in the window
  };

  /// Of all rails, now and then.
  void sample(std::span<const Load> rails);
  /// Those that were slow in all the time since the last conclusion, which was so long.
  std::vector<Slow> conclude(Nanoseconds time);

 private:
  std::vector<Load> first_, last_;
  std::vector<unsigned> working_, behind_;  // samples in which that rail had work; and another none
  unsigned samples_ = 0, loaded_ = 0;       // all; in which any had work
  bool is_uneven_ = false;                  // one of them was not whole
  std::vector<double> best_;                // bytes per second of work, in any window before
};

}  // namespace ddl
