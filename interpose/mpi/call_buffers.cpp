#include "interpose/mpi/call_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_tag.hpp"
#include "interpose/mpi/route.hpp"

namespace ddl::mpi {
namespace {

// MPI counts packed bytes in an int.
constexpr std::uint64_t kMostAtOnce = 1 << 30;

// Of so many bytes in a row.
OwnedType type_of_bytes(std::uint64_t bytes) {
  MPI_Datatype chunk = MPI_DATATYPE_NULL, all = MPI_DATATYPE_NULL;
  PMPI_Type_contiguous(static_cast<int>(kMostAtOnce), MPI_BYTE, &chunk);
  const OwnedType owned(chunk);
  const std::uint64_t rest = bytes % kMostAtOnce;
  const std::array<int, 2> counts = {static_cast<int>(bytes / kMostAtOnce), static_cast<int>(rest)};
  const std::array<MPI_Aint, 2> places = {0, static_cast<MPI_Aint>(bytes - rest)};
  const std::array<MPI_Datatype, 2> types = {chunk, MPI_BYTE};
  PMPI_Type_create_struct(2, counts.data(), places.data(), types.data(), &all);
  PMPI_Type_commit(&all);
  return OwnedType(all);
}

// From elements of one type to those of another: what is too long to be packed, by a message to ourselves.
int copy_elements(const void* from, int count, MPI_Datatype type, void* to, int to_count,
                  MPI_Datatype to_type) {
  const OwnTag tag;
  return PMPI_Sendrecv(from, count, type, 0, tag, to, to_count, to_type, 0, tag, state().own_self,
                       MPI_STATUS_IGNORE);
}

// Calls `body` with a pointer to elements of `side`, their number, their place among packed bytes and how
// many of these they are.
template <class Body>
int in_portions(MPI_Datatype type, void* buffer, std::uint64_t elements, std::uint64_t bytes, Body body) {
  if (bytes <= kMostAtOnce) return body(buffer, static_cast<int>(elements), 0, bytes);
  const MPI_Aint extent = extent_of(type);
  const std::uint64_t each = bytes / elements;
  const std::uint64_t most = std::max<std::uint64_t>(1, kMostAtOnce / std::max<std::uint64_t>(1, each));
  for (std::uint64_t done = 0; done < elements; done += most) {
    const std::uint64_t now = std::min(most, elements - done);
    auto* from = static_cast<std::byte*>(buffer) + static_cast<std::ptrdiff_t>(done) * extent;
    if (int error = body(from, static_cast<int>(now), done * each, now * each)) return error;
  }
  return MPI_SUCCESS;
}

int pack_elements(std::byte* to, std::byte* from, std::uint64_t elements, std::uint64_t bytes,
                  MPI_Datatype type) {
  auto pack = [&](void* these, int number, std::uint64_t at, std::uint64_t size) {
    HostBuffer host(these, number, type);
    if (!host.fetch()) return MPI_ERR_BUFFER;
    if (const TypeMap* map = host.is_device() ? nullptr : type_map_of(type)) {
      map->pack(to + at, static_cast<const std::byte*>(host.get()), static_cast<std::uint64_t>(number));
      return MPI_SUCCESS;
    }
    if (size > kMostAtOnce)
      return copy_elements(host.get(), number, type, to + at, 1, type_of_bytes(size).get());
    int position = 0;
    return PMPI_Pack(host.get(), number, type, to + at, static_cast<int>(size), &position, state().own_self);
  };
  return in_portions(type, from, elements, bytes, pack);
}

int unpack_elements(std::byte* to, std::uint64_t elements, const std::byte* from, std::uint64_t bytes,
                    MPI_Datatype type) {
  auto unpack = [&](void* these, int number, std::uint64_t at, std::uint64_t size) {
    HostBuffer host(these, number, type);
    if (!host.fetch()) return MPI_ERR_BUFFER;
    int position = 0, error = MPI_SUCCESS;
    if (const TypeMap* map = host.is_device() ? nullptr : type_map_of(type))
      map->unpack(static_cast<std::byte*>(host.get()), from + at, static_cast<std::uint64_t>(number));
    else if (size > kMostAtOnce)
      error = copy_elements(from + at, 1, type_of_bytes(size).get(), host.get(), number, type);
    else
      error = PMPI_Unpack(from + at, static_cast<int>(size), &position, host.get(), number, type,
                          state().own_self);
    return error == MPI_SUCCESS && !host.write_back() ? MPI_ERR_BUFFER : error;
  };
  return in_portions(type, to, elements, bytes, unpack);
}

std::byte* at_element(const void* buffer, std::uint64_t number, MPI_Datatype type) {
  if (number == 0) return static_cast<std::byte*>(const_cast<void*>(buffer));
  return static_cast<std::byte*>(const_cast<void*>(buffer)) +
         static_cast<std::ptrdiff_t>(number) * extent_of(type);
}

std::byte* begin_of(const BlockSide& side, Rank rank) {
  if (!side.types)
    return at_element(side.buffer, static_cast<std::uint64_t>(side.displacements[rank]), side.type);
  return static_cast<std::byte*>(const_cast<void*>(side.buffer)) + side.displacements[rank];
}

}  // namespace

CallBuffers::Held& CallBuffers::held() {
  if (!held_) held_ = std::make_unique_for_overwrite<Held>();
  return *held_;
}

void CallBuffers::outlive_call(std::shared_ptr<const Blocks> blocks, std::shared_ptr<const Blocks> others) {
  if (are_none() && !blocks && !others) return;
  held().blocks[0] = std::move(blocks);
  held().blocks[1] = std::move(others);
  for (Portion& portion : held().portions()) {
    if (is_predefined(combiner_of(portion.type))) continue;
    const TypeMap* map = is_device(portion.to, portion.type) ? nullptr : type_map_of(portion.type);
    if (map) {
      portion.map = *map;
      continue;
    }
    // The program may free its own meanwhile. A duplicate would copy its attributes, by callbacks.
    PMPI_Type_contiguous(1, portion.type, &portion.type);
    PMPI_Type_commit(&portion.type);
    held().types.emplace_back(portion.type);
  }
}

const void* CallBuffers::pack(const Side& side, std::uint64_t first, std::uint64_t elements,
                              std::uint64_t bytes) {
  std::byte* to = held().in.take(bytes);
  std::byte* from = at_element(side.buffer, first, side.type);
  return pack_elements(to, from, elements, bytes, side.type) ? nullptr : to;
}

const void* CallBuffers::pack(const BlockSide& side, Rank ranks, std::uint64_t bytes) {
  std::byte* to = held().in.take(bytes);
  for (Rank rank = 0; rank < ranks; ++rank) {
    const MPI_Datatype type = side.type_of(rank);
    const std::uint64_t these = bytes_of(side.counts[rank], type);
    const auto elements = static_cast<std::uint64_t>(side.counts[rank]);
    if (these > 0 && pack_elements(to, begin_of(side, rank), elements, these, type)) return nullptr;
    to += these;
  }
  return held().in.data();
}

const void* CallBuffers::pack_for_others(const Side& side, Rank ranks, Rank me, std::uint64_t block) {
  std::byte* to = held().in.take(static_cast<std::uint64_t>(ranks - 1) * block);
  const auto each = static_cast<std::uint64_t>(side.count);
  auto pack_from = [&](Rank first, Rank blocks, std::byte* there) {
    const auto number = static_cast<std::uint64_t>(blocks);
    std::byte* from = at_element(side.buffer, static_cast<std::uint64_t>(first) * each, side.type);
    return number == 0 || !pack_elements(there, from, number * each, number * block, side.type);
  };
  if (!pack_from(0, me, to) ||
      !pack_from(me + 1, ranks - 1 - me, to + static_cast<std::uint64_t>(me) * block))
    return nullptr;
  for (Rank rank = 0; rank < ranks; ++rank)
    held().offsets.push_back(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(rank - (rank > me)) * block));
  held().offsets[static_cast<std::size_t>(me)] =
      at_element(side.buffer, static_cast<std::uint64_t>(me) * each, side.type) - to;
  return to;
}

const void* CallBuffers::pack_for_others(const BlockSide& side, Rank ranks, Rank me, std::uint64_t bytes) {
  std::byte* const first = held().in.take(bytes - bytes_of(side.counts[me], side.type_of(me)));
  std::byte* to = first;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const MPI_Datatype type = side.type_of(rank);
    const std::uint64_t these = rank == me ? 0 : bytes_of(side.counts[rank], type);
    const auto elements = static_cast<std::uint64_t>(side.counts[rank]);
    if (these > 0 && pack_elements(to, begin_of(side, rank), elements, these, type)) return nullptr;
    held().offsets.push_back((rank == me ? begin_of(side, me) : to) - first);
    to += these;
  }
  return first;
}

void* CallBuffers::unpack_later(const Side& side, std::uint64_t elements, std::uint64_t bytes) {
  held().whole = {at_element(side.buffer, 0, side.type), elements, bytes, side.type};
  return copy_later(nullptr, bytes);
}

void* CallBuffers::unpack_later(const BlockSide& side, Rank ranks, std::uint64_t bytes) {
  for (Rank rank = 0; rank < ranks; ++rank) {
    const MPI_Datatype type = side.type_of(rank);
    const auto elements = static_cast<std::uint64_t>(side.counts[rank]);
    if (const std::uint64_t these = bytes_of(side.counts[rank], type))
      held().unequal.push_back({begin_of(side, rank), elements, these, type});
  }
  return copy_later(nullptr, bytes);
}

void* CallBuffers::copy_later(void* to, std::uint64_t bytes) {
  held().to = to;
  held().bytes = bytes;
  held().brings_back = true;
  return held().out.take(bytes);
}

void* CallBuffers::copy_pairs_later(void* to, std::uint64_t count, std::uint64_t bytes, MPI_Datatype pair) {
  held().pairs = count;
  held().pair = pair;
  return copy_later(to, bytes);
}

void* CallBuffers::reduce_by(MPI_Datatype type, MPI_Op op, OwnReductionCall::Meanwhile meanwhile) {
  reduction_ = std::make_shared<OwnReductionCall>(type, op, meanwhile);
  return reduction_.get();
}

int CallBuffers::bring_back() {
  if (!std::exchange(held_->brings_back, false)) return MPI_SUCCESS;
  if (held().to) {
    const ddl_engine_api* api = state().api;
    const bool is_on_device = api->is_device(held().to, held().to) != 0;
    if (held().pairs > 0 && is_on_device) {
      CopyMemory all;
      std::byte* host = all.take(held().bytes);
      if (!api->copy_device(host, held().to, held().bytes)) return MPI_ERR_BUFFER;
      copy_pairs(host, held().out.data(), held().pairs, held().pair);
      return api->copy_device(held().to, host, held().bytes) ? MPI_SUCCESS : MPI_ERR_BUFFER;
    }
    if (is_on_device)
      return api->copy_device(held().to, held().out.data(), held().bytes) ? MPI_SUCCESS : MPI_ERR_BUFFER;
    if (held().pairs > 0)
      return copy_pairs(held().to, held().out.data(), held().pairs, held().pair), MPI_SUCCESS;
    std::memcpy(held().to, held().out.data(), held().bytes);
    return MPI_SUCCESS;
  }
  const std::byte* from = held().out.data();
  for (const Portion& portion : held().portions()) {
    if (!portion.map.is_none())
      portion.map.unpack(portion.to, from, portion.elements);
    else if (int error = unpack_elements(portion.to, portion.elements, from, portion.bytes, portion.type))
      return error;
    from += portion.bytes;
  }
  return MPI_SUCCESS;
}

}  // namespace ddl::mpi
