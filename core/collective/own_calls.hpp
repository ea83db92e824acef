// OwnCalls: the last calls of a communicator, as this rank has made them. Who hears that another rank makes
// another call names both, also where its own is done.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "core/collective/call.hpp"

namespace ddl {

class OwnCalls {
 public:
  using Number = std::uint64_t;  // of a call of the communicator, from 0
  /// So many are known; Credit lets no rank be further ahead.
  static constexpr std::size_t kKnown = 128;

  /// A Call without what ends with it, and without initial values: a short-lived communicator writes only
  /// those that it makes.
  struct Note {
    Elements count, whole;
    const char* collective;
    Fingerprint fingerprint;
    Rank root;
    DType type;
    Op op;
    Kind kind;
    DType wire_of;
    WireType wire_as;
    WireWhere wire_where;
    bool has_lengths, is_pairwise, is_part, is_own;
  };
  /// The call's messages carry that fingerprint, and its elements travel like that.
  static Note note_of(const Call& call, Fingerprint fingerprint, const WireFormat& wire);

  struct Known {
    Fingerprint fingerprint;
    std::string title;
    bool is_pairwise = false;
  };

  /// Of each call, in their order.
  void note(Number number, const Note& note) {
    std::unique_ptr<Block>& block = blocks_[number / kBlock % blocks_.size()];
    if (!block) block = std::make_unique_for_overwrite<Block>();
    (*block)[number % kBlock] = note;
    end_ = number + 1;
  }
  std::optional<Known> find(Number number) const;

 private:
  static constexpr std::size_t kBlock = 16;
  using Block = std::array<Note, kBlock>;
  std::array<std::unique_ptr<Block>, kKnown / kBlock> blocks_;  // a ring
  Number end_ = 0;                                              // those before it have been noted
};

}  // namespace ddl
