// Meeting: how the ranks of one of gloo's contexts find out, in all-reduces of gloo's own, whether all of
// them will use the engine, and where rank 0 waits for them.
//
// Two rounds, each an all-reduce of bytes by OR to which every rank brings what it has to say in a place of
// its own, and zeros elsewhere: (1) who can, and rank 0's id; (2) who has joined. An all-gather would do as
// well; but of gloo's classes this needs only the one that the call itself has brought. In the second one
// each tells which calls it has made by gloo meanwhile, see EarlyCalls.
//
// Order of use: start a round, have gloo reduce bytes() on all ranks, read what they are then. Thread safety:
// a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/types.hpp"
#include "interpose/gloo/early_calls.hpp"

namespace ddl::gloo {

class Meeting {
 public:
  static constexpr std::size_t kIdBytes = 128;
  /// Of both rounds: above all that programs count up to.
  static constexpr std::uint32_t kTag = 0xddd10001;

  Meeting(Rank rank, Rank size) : rank_(rank), size_(size) {}

  /// What this rank says: yes or no; rank 0 its id, too (in the first round).
  void start(bool yes, std::span<const std::byte> id = {}, const EarlyCalls::List& early = {});
  std::span<std::byte> bytes() { return bytes_; }
  /// The rank that says no, the lowest of them; -1: all say yes.
  Rank who_says_no() const;
  /// A rank that runs another version of this; -1: none.
  Rank who_is_strange() const;
  std::span<const std::byte> id() const { return std::span(bytes_).first(kIdBytes); }
  /// By rank.
  std::vector<EarlyCalls::List> early() const;

  /// out[i] = a[i] | b[i].
  static void reduce(void* out, const void* a, const void* b, std::size_t bytes);

 private:
  // Any two of them are neither; others than in versions that brought other bytes.
  static constexpr std::byte kYes{0x21}, kNo{0x12};

  std::size_t early_at(Rank rank) const;
  std::span<const std::byte> votes() const;

  Rank rank_, size_;
  std::vector<std::byte> bytes_;  // id, a byte per rank, a list per rank
};

}  // namespace ddl::gloo
