// OwnCalls: the last calls of a communicator, as this rank has made them. Who hears that another rank makes
// another call names both, also where its own is done.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <optional>
#include <string>

#include "core/base/block_ring.hpp"
#include "core/collective/call.hpp"

namespace ddl {

class OwnCalls {
 public:
  using Number = std::uint64_t;  // of a call of the communicator, from 0
  /// So many are known; Credit lets no rank be further ahead.
  static constexpr std::size_t kKnown = 128;

  /// A Call without what ends with it.
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
    calls_.set(number, note);
    end_ = number + 1;
  }
  std::optional<Known> find(Number number) const;

 private:
  BlockRing<Note, kKnown> calls_;
  Number end_ = 0;  // those before it have been noted
};

}  // namespace ddl
