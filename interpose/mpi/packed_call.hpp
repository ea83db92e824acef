// Small movements of elements of types that the program made, maybe for one call alone: packed, where they do
// not lie as in a message, and made as the kept call of so many bytes.
//
// Thread safety: all.
#pragma once

#include <mpi.h>

#include <array>
#include <optional>
#include <vector>

#include "core/plan/kind.hpp"
#include "interpose/mpi/call_buffers.hpp"
#include "interpose/mpi/kept_calls.hpp"
#include "interpose/mpi/route.hpp"
#include "interpose/mpi/run_call.hpp"

namespace ddl::mpi {

/// A movement that is kept by its bytes, of whatever type, is kept as this.
SaidCall said_by_bytes(Collective collective, std::uint64_t bytes, Rank root, Form form);

/// A blocking call; nothing: it is none that is kept, or takes another way: MPI names its types or has to
/// pack, the buffers are the same one or a device's, or it is erroneous.
std::optional<int> run_packed(Collective collective, Task task, const Side& in, const Side& out,
                              MPI_Comm comm);

/// A call with blocks of unequal length as one of so many bytes for each rank. What is said below of
/// it holds where is_one(); else it takes another way: a buffer is a device's or MPI_BOTTOM,
/// a block is 2 GiB away, the call is erroneous, or none like it is ever kept. Valid until the next one of
/// this thread.
class PackedExchange {
 public:
  /// Of MPI_Allgatherv `in` has one block.
  PackedExchange(Collective collective, Form form, const BlockSide& in, const BlockSide& out, int root,
                 MPI_Comm comm);
  PackedExchange(const PackedExchange&) = delete;
  PackedExchange& operator=(const PackedExchange&) = delete;
  bool is_one() const { return comm_ != nullptr; }
  /// Nothing: it is not kept.
  std::optional<int> run_again();
  std::optional<int> start_again(MPI_Request* request);
  /// What it is kept as, once the engine has been given those buffers.
  const Made* made() const { return is_one() ? &made_ : nullptr; }
  void give(const ddl_collective_call& call);

 private:
  // One side, by block.
  struct Bytes {
    std::vector<int> lengths, places;  // places as the program has them
    std::vector<TypeMap> maps;         // none: as in a message; one alone where all are of one type
    std::uint64_t total = 0;
    bool packs = false;     // all lie one after the other, in a copy
    bool asks_mpi = false;  // of some it is MPI that packs them

    // False where it takes another way.
    bool set(const BlockSide& side, Rank blocks);
    /// From the blocks to bytes one behind the other, or back.
    template <bool to_row>
    void copy(const BlockSide& side, std::byte* row) const;
  };
  using Both = std::array<Bytes, 2>;

  const void* in_buffer() const;       // where nothing is packed
  bool copy_to(CallBuffers& buffers);  // and has `made_` name them; false: MPI cannot pack

  const BlockSide& in_;
  const BlockSide& out_;
  Bytes &in_bytes_, &out_bytes_;
  CommState* comm_ = nullptr;
  Made made_;
};

}  // namespace ddl::mpi
