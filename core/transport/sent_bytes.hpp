// SentBytes: what a stream has handed to the kernel and its reader's kernel has not acknowledged, so that it
// can be sent again over another rail. Whole frames are kept: one goes when all of it is acknowledged.
//
// Ownership: copies of the bytes, in one ring. It is at most twice as large as a socket's buffer, and becomes
// smaller when less has been kept for a while. Thread safety: none.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class SentBytes {
 public:
  /// The next bytes of the frame under way were handed over.
  void add(std::span<const std::byte> bytes);
  /// They were its last; the next bytes begin another.
  void end_frame() { ends_.push_back(end_); }
  /// So many of all bytes have not been acknowledged.
  void trim(Bytes unacknowledged);

  /// Bytes kept.
  Bytes bytes() const { return end_ - begin_; }
  /// Bytes that there is room for.
  Bytes capacity() const { return ring_.size(); }
  /// Number of the oldest whole frame that is kept, counted from 0; and how many are.
  std::uint64_t first_frame() const { return first_; }
  std::size_t frames() const { return ends_.size(); }
  /// Copies the next whole frame, and forgets it. Empty where there is none.
  std::vector<std::byte> pop();

 private:
  void resize(Bytes bytes);
  void copy_out(std::byte* to, Bytes bytes) const;

  std::vector<std::byte> ring_;  // a power of two
  Bytes begin_ = 0, end_ = 0;    // of what is kept, as places in the stream
  std::deque<Bytes> ends_;       // of the whole frames
  std::uint64_t first_ = 0;
  Bytes largest_ = 0;  // of what was kept, in the last `trims_`
  int trims_ = 0;
};

}  // namespace ddl
