#include "interpose/mpi/packed_call.hpp"

#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

// The blocks of a side that counts on this rank.
struct Packing {
  std::uint64_t bytes = 0;     // of a block
  std::uint64_t elements = 0;  // of all
  TypeMap map = {};            // none: they lie as in a message
};

std::optional<Packing> packing_of(const Side& side, Rank blocks) {
  if (side.count < 0 || !side.buffer || side.buffer == MPI_IN_PLACE) return std::nullopt;
  const auto count = static_cast<std::uint64_t>(side.count);
  const std::uint64_t elements = count * static_cast<std::uint64_t>(blocks);
  if (const std::uint64_t size = size_of_known(side.type)) return Packing{count * size, elements};
  const TypeFacts* facts = facts_of(side.type);
  if (!facts || (!facts->is_dense && facts->map.is_none())) return std::nullopt;
  return Packing{count * facts->size, elements, facts->is_dense ? TypeMap{} : facts->map};
}

}  // namespace

SaidCall said_by_bytes(Collective collective, std::uint64_t bytes, Rank root, Form form) {
  return {MPI_BYTE, MPI_BYTE, static_cast<int>(bytes), 0, root, collective, SaidCall::kBytes, form};
}

std::optional<int> run_packed(Collective collective, Task task, const Side& in, const Side& out,
                              MPI_Comm comm) {
  CommState* known = state_of_noted(comm);
  if (!known || !known->kept.has_some_by_bytes) return std::nullopt;
  const Rank in_blocks = blocks_in(task, known->me, known->size),
             out_blocks = blocks_out(task, known->me, known->size);
  const bool is_source = task.kind == Kind::broadcast && in_blocks > 0;
  const bool has_in = in_blocks > 0, has_out = out_blocks > 0 && !is_source;
  if (has_in && has_out && in.buffer == out.buffer) return std::nullopt;
  const std::optional<Packing> packs = has_in ? packing_of(in, in_blocks) : Packing{};
  const std::optional<Packing> unpacks = has_out ? packing_of(out, out_blocks) : Packing{};
  if (!packs || !unpacks || (has_in && has_out && packs->bytes != unpacks->bytes)) return std::nullopt;
  const std::uint64_t block = has_in ? packs->bytes : unpacks->bytes;
  constexpr std::uint64_t kMost = 1 << 20;  // none that is kept is larger
  if (block > kMost) return std::nullopt;
  const Made made{said_by_bytes(collective, block, task.root, Form::blocking), in.buffer, out.buffer, comm};
  const KeptCall* kept = known->kept.find(made.said, {}, known->size);
  if (!kept || state().api->is_device(in.buffer, out.buffer)) return std::nullopt;

  CopyMemory packed, unpacked;
  const void* from = has_in ? in.buffer : nullptr;
  void* to = has_out ? const_cast<void*>(out.buffer) : nullptr;
  if (!packs->map.is_none()) {
    std::byte* copy = packed.take(block * static_cast<std::uint64_t>(in_blocks));
    packs->map.pack(copy, static_cast<const std::byte*>(in.buffer), packs->elements);
    from = copy;
  }
  if (!unpacks->map.is_none()) to = unpacked.take(block * static_cast<std::uint64_t>(out_blocks));
  if (is_source) to = const_cast<void*>(from);
  const std::optional<int> done = make_again(*kept, *known, made, from, to);
  if (done == MPI_SUCCESS && !unpacks->map.is_none())
    unpacks->map.unpack(static_cast<std::byte*>(const_cast<void*>(out.buffer)), unpacked.data(),
                        unpacks->elements);
  return done;
}

}  // namespace ddl::mpi
