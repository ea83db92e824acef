// EndedStreams: how far each stream of other ranks had come that was lost, so that what is sent again over
// another rail is taken once. Pure.
//
// Of each writer and rail the last few are known: what was lost before these has long been taken.
//
// Thread safety: none.
#pragma once

#include <map>

#include "core/base/types.hpp"

namespace ddl {

/// A stream that was lost: who wrote it, on which rail, the how manieth there.
struct LostStream {
  Rank from;
  std::size_t rail;
  std::uint32_t epoch;
  friend auto operator<=>(const LostStream&, const LostStream&) = default;
};

class EndedStreams {
 public:
  static constexpr std::size_t kKept = 8;  // they are lost two seconds apart, at least

  /// `next` is the first frame that did not come. It is kept where it is known.
  void add(const LostStream& stream, std::uint64_t next);
  /// Whether it has been lost, or a later one.
  bool is_over(const LostStream& stream) const;
  /// Whether that frame of it did not come.
  bool lacks(const LostStream& stream, std::uint64_t frame) const;
  /// Now it has.
  void took(const LostStream& stream, std::uint64_t frame);
  std::size_t size() const { return next_.size(); }

 private:
  std::map<LostStream, std::uint64_t> next_;  // frame
};

}  // namespace ddl
