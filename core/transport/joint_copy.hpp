// JointCopy: how a payload gets from its sender's memory to that of its one reader where the sender takes
// part: the reader reads piece after piece from the beginning on (process_vm_readv), and the sender, when all
// it has to do is to wait for the reader, writes from the end back (process_vm_writev). Where both have come
// each moves half.
//
// What they agree about lies in the head of the message's block. A piece is a part of what is left, so that
// both are through at about the same time, after few system calls; and from call to call the same rank moves
// the same half, whose lines its caches have. (2 ranks, an Intel Xeon, blocks that have just been written, by
// the reader alone / halves / pieces of 64 KiB in turn: 64 KiB 11.4 / 5.9 / 11.2 us, 1 MiB 105 / 51 / 58, 16
// MiB 1940 / 930 / 1190.)
//
// Thread safety: atomic, between the two.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"

namespace ddl {

class JointCopy {
 public:
  static constexpr Bytes kLeastPiece = 64 << 10;

  struct Piece {
    Bytes first = 0, bytes = 0;
    explicit operator bool() const { return bytes > 0; }
  };

  /// The sender's, before the reader hears of the message; of 0 bytes: it will take no part.
  void begin(Bytes bytes) {
    bytes_.store(static_cast<std::uint32_t>(bytes), std::memory_order_relaxed);
    into_.store(nullptr, std::memory_order_relaxed);
    taken_.store({0, 0}, std::memory_order_relaxed);
    written_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
  }
  bool is_joint() const { return bytes() > 0; }

  // The reader's.
  /// The sender may write there until end(), and until all that it has taken is written.
  void offer(std::byte* into) { into_.store(into, std::memory_order_release); }
  /// The next piece to read; none: all are taken.
  Piece take_first() { return take(true); }
  /// Nothing is left to take from now on, and what the sender has taken counts as not written.
  void fail() {
    failed_.store(true, std::memory_order_relaxed);
    end();
  }
  /// Nothing is left to take from now on.
  void end() {
    while (take_first()) continue;
  }
  /// The sender is through with all that it has taken; whether it is there has_failed() says.
  bool is_written() const { return written_.load(std::memory_order_acquire) == taken().last; }
  bool has_failed() const { return failed_.load(std::memory_order_relaxed); }

  // The sender's.
  bool wants_writer() const { return into() && left(taken()) > 0; }
  std::byte* into() const { return into_.load(std::memory_order_acquire); }
  /// The next piece to write; wrote() follows, after which nothing here is to be touched.
  Piece take_last() { return take(false); }
  void wrote(Piece piece, bool succeeded) {
    if (!succeeded) fail();
    written_.fetch_add(static_cast<std::uint32_t>(piece.bytes), std::memory_order_release);
  }

 private:
  struct alignas(8) Taken {
    std::uint32_t first, last;  // bytes, from either end
  };

  Bytes bytes() const { return bytes_.load(std::memory_order_relaxed); }
  Taken taken() const { return taken_.load(std::memory_order_acquire); }
  Bytes left(Taken taken) const { return bytes() - taken.first - taken.last; }
  Piece take(bool is_first) {
    Taken before = taken(), after;
    Bytes next = 0;
    do {
      next = std::max(kLeastPiece, round_up(left(before) * 3 / 8, kPage));
      if (left(before) < next + kLeastPiece / 2) next = left(before);
      const auto more = static_cast<std::uint32_t>(next);
      after = is_first ? Taken{before.first + more, before.last} : Taken{before.first, before.last + more};
    } while (next > 0 && !taken_.compare_exchange_weak(before, after, std::memory_order_acq_rel));
    return {is_first ? before.first : bytes() - after.last, next};
  }

  static constexpr Bytes kPage = 4096;
  std::atomic<std::byte*> into_;  // in the reader's memory
  std::atomic<Taken> taken_;
  std::atomic<std::uint32_t> bytes_, written_;  // the latter: by the sender
  std::atomic<bool> failed_;
};

}  // namespace ddl
