// StagingRing: memory in which blocks of any size follow one another and are used again in that order, so
// that each of its lines comes to be written again only when all others have been.
//
// A core that writes a block whose lines lie in the cache of the core that read it must fetch each from
// there. After twice what that cache holds they have left it for the last one, which hands them out sooner
// (two cores, 1 and 32 MiB of cache, writing 16, 64 and 256 KiB and 1 MiB: 1.65, 7.2, 30 and 74 us where
// blocks take turns over 256 KiB, 0.57, 1.8, 6.7 and 28 us over 2 MiB). One ring for all sizes takes its
// pages once.
//
// A round may begin short and become longer with each: the lines of the first one come from memory.
//
// A block that is still being read when its turn comes is left out.
//
// Thread safety: none.
#pragma once

#include <deque>

#include "core/base/types.hpp"

namespace ddl {

class StagingRing {
 public:
  /// From `memory` on, which is aligned to a BlockHead. It has nothing at first, and refuses everything. The
  /// first round takes about so many bytes, if it has them, and each further one an eighth more.
  explicit StagingRing(std::byte* memory, Bytes first_round = ~Bytes{0})
      : memory_(memory), round_(first_round) {}
  /// By that many bytes behind those that it has, as far as they are whole BlockHeads.
  void grow(Bytes by);
  Bytes bytes() const { return bytes_; }

  /// A block of that many bytes with its head, which is free; its caller sets its readers. The call that it
  /// is for has `at_once` such under way: their number divides that of a round, so that in the next round
  /// each has the reader that it had. Null: it is too large, or too many blocks are being read.
  std::byte* take(Bytes bytes, std::size_t at_once);

 private:
  struct Taken {
    Bytes begin, end;
  };
  std::byte* take_before(Bytes end, Bytes bytes);
  bool is_free(const Taken& taken) const;
  void pass_first();
  void go_to(Bytes place);

  std::byte* memory_;
  Bytes bytes_ = 0, round_, next_ = 0;
  // That lie at or behind next_, then those before it, each part by place.
  std::deque<Taken> taken_;
};

}  // namespace ddl
