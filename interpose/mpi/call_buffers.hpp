// The buffers of a call as the engine can work on them: blocks that lie one after the other, without gaps.
// Where the program's are others (elements of a derived type; some forms of MPI_IN_PLACE) these are copies.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "interpose/mpi/blocks.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_reductions.hpp"

namespace ddl::mpi {

/// One side of a call as the program gave it: `count` elements of a type in each block.
struct Side {
  const void* buffer = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

/// Of a copy; a small one needs no allocation.
class CopyMemory {
 public:
  std::byte* take(std::uint64_t bytes) {
    if (bytes <= sizeof few_) return data_ = few_.data();
    many_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return data_ = many_.get();
  }
  std::byte* data() const { return data_; }

 private:
  alignas(16) std::array<std::byte, 256> few_;
  std::unique_ptr<std::byte[]> many_;
  std::byte* data_ = nullptr;
};

class CallBuffers {
 public:
  CallBuffers() = default;
  /// Of a call whose elements the engine works on where they are, with that context.
  explicit CallBuffers(std::shared_ptr<OwnReductionCall> reduction) : reduction_(std::move(reduction)) {}
  CallBuffers(CallBuffers&&) = default;
  CallBuffers& operator=(CallBuffers&&) = default;

  /// A copy of so many elements, from that of that number on, one after the other in `bytes` bytes. Null: MPI
  /// cannot read them.
  const void* pack(const Side& side, std::uint64_t first, std::uint64_t elements, std::uint64_t bytes);
  /// The same of blocks of unequal length.
  const void* pack(const BlockSide& side, Rank ranks, std::uint64_t bytes);
  /// The same of what an all-to-all in place has for the others: so many bytes for each, and the own block
  /// stays where it is. Where each block lies offsets() says then, in bytes.
  const void* pack_for_others(const Side& side, Rank ranks, Rank me, std::uint64_t block);
  /// Blocks of unequal length, which take `bytes` bytes with the own one.
  const void* pack_for_others(const BlockSide& side, Rank ranks, Rank me, std::uint64_t bytes);
  const std::int64_t* offsets() const { return held_->offsets.data(); }
  /// Where the result may be written, for finish() to put it into so many elements of that side.
  void* unpack_later(const Side& side, std::uint64_t elements, std::uint64_t bytes);
  /// The same for blocks of unequal length, which lie one after the other in `bytes` bytes.
  void* unpack_later(const BlockSide& side, Rank ranks, std::uint64_t bytes);
  /// The same for plain bytes.
  void* copy_later(void* to, std::uint64_t bytes);
  /// The same for pairs with gaps, in as many bytes as they take in memory; see has_gaps().
  void* copy_pairs_later(void* to, std::uint64_t count, std::uint64_t bytes, MPI_Datatype pair);
  /// The program's call returns before this ends: what is needed of its arguments lives as long as this.
  void outlive_call(std::shared_ptr<const Blocks> blocks, std::shared_ptr<const Blocks> others);
  /// Context for OwnReductionCall::combine(), as long as this or reduction() lives.
  void* reduce_by(MPI_Datatype type, MPI_Op op, OwnReductionCall::Meanwhile meanwhile);
  std::shared_ptr<OwnReductionCall> reduction() const { return reduction_; }

  /// Whether the program's own buffers will do.
  bool are_none() const { return !held_; }
  /// Or all but for copy_pairs_later().
  bool are_of_pairs() const { return held_ && held_->pairs > 0; }
  /// Once, after a right call; an MPI error code.
  int finish() {
    if (reduction_ && reduction_->has_thrown()) return MPI_ERR_OTHER;
    return held_ ? bring_back() : MPI_SUCCESS;
  }

 private:
  struct Portion {  // of what finish() brings back
    std::byte* to;
    std::uint64_t elements, bytes;
    MPI_Datatype type;
    TypeMap map = {};  // where the call is outlived, and so in place of the type
  };
  struct Held {
    CopyMemory in, out;
    std::vector<std::int64_t> offsets;  // of blocks from the beginning of `in`
    bool brings_back = false;
    void* to = nullptr;  // where finish() brings `out`; null: in portions
    std::uint64_t bytes = 0;
    std::uint64_t pairs = 0;  // of `pair`, where their gaps stay
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    Portion whole{};                          // where there is one alone
    std::vector<Portion> unequal;             // else
    std::shared_ptr<const Blocks> blocks[2];  // these and the types where the call is outlived
    std::vector<OwnedType> types;

    std::span<Portion> portions() { return whole.type ? std::span(&whole, 1) : std::span(unequal); }
  };

  Held& held();
  int bring_back();

  std::unique_ptr<Held> held_;  // null: most calls need nothing of it
  std::shared_ptr<OwnReductionCall> reduction_;
};

}  // namespace ddl::mpi
