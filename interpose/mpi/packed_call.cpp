#include "interpose/mpi/packed_call.hpp"

#include <array>
#include <cstring>
#include <limits>

#include "interpose/mpi/by_thread.hpp"
#include "interpose/mpi/made_types.hpp"
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
  // Of MPI's own types it is kept as it was said.
  if ((!has_in || is_known(in.type)) && (!has_out || is_known(out.type))) return std::nullopt;
  const std::optional<Packing> packs = has_in ? packing_of(in, in_blocks) : Packing{};
  const std::optional<Packing> unpacks = has_out ? packing_of(out, out_blocks) : Packing{};
  if (!packs || !unpacks || (has_in && has_out && packs->bytes != unpacks->bytes)) return std::nullopt;
  const std::uint64_t block = has_in ? packs->bytes : unpacks->bytes;
  if (block > KeptCalls::kMostBytes) return std::nullopt;
  const Made made{said_by_bytes(collective, block, task.root, Form::blocking), in.buffer, out.buffer, comm};
  const KeptCall* kept = kept_call(*known, made.said, {});
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

PackedExchange::PackedExchange(Collective collective, Form form, const BlockSide& in, const BlockSide& out,
                               int root, MPI_Comm comm)
    : in_(in),
      out_(out),
      in_bytes_(by_thread<Both>()[0]),
      out_bytes_(by_thread<Both>()[1]),
      made_{said_by_bytes(collective, 0, root, form), nullptr, nullptr, comm} {
  CommState* known = state_of_noted(comm);
  const bool has_one = collective == Collective::all_gather_v;
  if (!known || known->size > KeptCalls::kMostRanks || !in_bytes_.set(in, has_one ? 1 : known->size) ||
      !out_bytes_.set(out, known->size))
    return;
  const auto me = static_cast<std::size_t>(known->me);
  if (in_bytes_.lengths[has_one ? 0 : me] != out_bytes_.lengths[me]) return;
  // Whose places count is said where others say a count.
  const int packs = (in_bytes_.packs ? 1 : 0) + (out_bytes_.packs ? 2 : 0);
  made_.said = {MPI_BYTE, MPI_BYTE, 0, packs, root, collective, SaidCall::kBytes, form};
  made_.lists = {out_bytes_.lengths.data(), out_bytes_.packs ? nullptr : out_bytes_.places.data()};
  if (!has_one) {
    made_.lists[2] = in_bytes_.lengths.data();
    made_.lists[3] = in_bytes_.packs ? nullptr : in_bytes_.places.data();
  }
  if (!state().api->is_device(in.buffer, out.buffer)) comm_ = known;
}

bool PackedExchange::Bytes::set(const BlockSide& side, Rank blocks) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (!side.counts || !side.displacements || side.buffer == MPI_IN_PLACE) return false;
  lengths.resize(static_cast<std::size_t>(blocks));
  places.resize(static_cast<std::size_t>(blocks));
  maps.resize(side.types ? static_cast<std::size_t>(blocks) : 1);
  total = 0;
  packs = asks_mpi = false;
  std::int64_t size = 0, extent = 0;
  bool is_in_row = true;
  for (Rank block = 0; block < blocks; ++block) {
    const auto at = static_cast<std::size_t>(block);
    const MPI_Datatype type = side.type_of(block);
    if (block > 0 && side.types) maps[at] = maps[at - 1];
    TypeMap& map = maps[side.types ? at : 0];
    if (block == 0 || type != side.type_of(block - 1)) {
      size = extent = static_cast<std::int64_t>(size_of_known(type));
      is_in_row = true;
      map = {};
      if (size == 0) {
        const TypeFacts* facts = facts_of(type);
        if (!facts) return false;
        size = static_cast<std::int64_t>(facts->size);
        extent = facts->extent;
        is_in_row = facts->is_dense;
        if (!is_in_row) map = facts->map;
      }
    }
    if (side.counts[block] < 0 || size > kMost) return false;
    const std::int64_t length = side.counts[block] * size;
    // Of a block of nothing it may be anything.
    const std::int64_t place = length == 0 ? 0 : side.displacements[block] * (side.types ? 1 : extent);
    if (length > kMost || place > kMost || place < -kMost) return false;
    packs = packs || (side.counts[block] > 0 && !is_in_row);  // though it be of no bytes, as adapt_pairs()
    asks_mpi = asks_mpi || (length > 0 && !is_in_row && map.is_none());
    total += static_cast<std::uint64_t>(length);
    lengths[at] = static_cast<int>(length);
    places[at] = static_cast<int>(place);
  }
  if (!side.buffer && total > 0) return false;  // MPI_BOTTOM
  return total <= KeptCalls::kMostBytes * static_cast<std::uint64_t>(blocks);
}

template <bool to_row>
void PackedExchange::Bytes::copy(const BlockSide& side, std::byte* row) const {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(side.buffer));
  for (std::size_t block = 0; block < lengths.size(); ++block) {
    const auto bytes = static_cast<std::size_t>(lengths[block]);
    if (bytes == 0) continue;
    std::byte* elements = begin + places[block];
    const TypeMap& map = maps[side.types ? block : 0];
    const auto number = static_cast<std::uint64_t>(side.counts[block]);
    if (map.is_none())
      std::memcpy(to_row ? row : elements, to_row ? elements : row, bytes);
    else if (to_row)
      map.pack(row, elements, number);
    else
      map.unpack(elements, row, number);
    row += bytes;
  }
}

const void* PackedExchange::in_buffer() const {
  const bool has_one = !made_.lists[2];
  return has_one ? static_cast<const std::byte*>(in_.buffer) + in_bytes_.places[0] : in_.buffer;
}

std::optional<int> PackedExchange::run_again() {
  const KeptCall* kept = comm_->kept.find(made_.said, made_.lists, comm_->size);
  if (!kept) return std::nullopt;
  if (in_bytes_.asks_mpi || out_bytes_.asks_mpi) {
    CallBuffers buffers;
    if (!copy_to(buffers)) return std::nullopt;
    const std::optional<int> done = make_again(*kept, *comm_, made_, made_.in, const_cast<void*>(made_.out));
    return done == MPI_SUCCESS ? buffers.finish() : done;
  }
  CopyMemory packed, unpacked;
  const void* from = in_buffer();
  void* to = const_cast<void*>(out_.buffer);
  if (in_bytes_.packs) {
    from = packed.take(in_bytes_.total);
    in_bytes_.copy<true>(in_, packed.data());
  }
  if (out_bytes_.packs) to = unpacked.take(out_bytes_.total);
  const std::optional<int> done = make_again(*kept, *comm_, made_, from, to);
  if (done == MPI_SUCCESS && out_bytes_.packs) out_bytes_.copy<false>(out_, unpacked.data());
  return done;
}

bool PackedExchange::copy_to(CallBuffers& buffers) {
  const auto in_blocks = static_cast<Rank>(in_bytes_.lengths.size());
  made_.in = in_bytes_.packs ? buffers.pack(in_, in_blocks, in_bytes_.total) : in_buffer();
  made_.out = out_bytes_.packs ? buffers.unpack_later(out_, comm_->size, out_bytes_.total) : out_.buffer;
  return !in_bytes_.packs || made_.in;
}

std::optional<int> PackedExchange::start_again(MPI_Request* request) {
  const KeptCall* kept = comm_->kept.find(made_.said, made_.lists, comm_->size);
  CallBuffers buffers;
  if (!kept || !copy_to(buffers)) return std::nullopt;
  return mpi::start_again(*kept, *comm_, made_, request, &buffers);
}

void PackedExchange::give(const ddl_collective_call& call) {
  made_.in = call.in;
  made_.out = call.out;
}

}  // namespace ddl::mpi
