#include "interpose/mpi/call_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/route.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

// MPI counts packed bytes in an int.
constexpr std::uint64_t kMostAtOnce = 1 << 30;

// Calls `body` with a pointer to elements of `side`, their number and their place among packed bytes.
template <class Body>
int in_portions(MPI_Datatype type, void* buffer, std::uint64_t elements, std::uint64_t bytes, Body body) {
  if (bytes <= kMostAtOnce) return body(buffer, static_cast<int>(elements), 0, static_cast<int>(bytes));
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  const std::uint64_t each = bytes / elements;
  const std::uint64_t most = std::max<std::uint64_t>(1, kMostAtOnce / std::max<std::uint64_t>(1, each));
  for (std::uint64_t done = 0; done < elements; done += most) {
    const std::uint64_t now = std::min(most, elements - done);
    auto* from = static_cast<std::byte*>(buffer) + static_cast<std::ptrdiff_t>(done) * extent;
    if (int error = body(from, static_cast<int>(now), done * each, static_cast<int>(now * each)))
      return error;
  }
  return MPI_SUCCESS;
}

int pack_elements(std::byte* to, std::byte* from, std::uint64_t elements, std::uint64_t bytes,
                  MPI_Datatype type) {
  return in_portions(type, from, elements, bytes, [&](void* these, int number, std::uint64_t at, int size) {
    HostBuffer host(these, number, type);
    int position = 0;
    return host.fetch() ? PMPI_Pack(host.get(), number, type, to + at, size, &position, MPI_COMM_SELF)
                        : MPI_ERR_BUFFER;
  });
}

int unpack_elements(std::byte* to, std::uint64_t elements, const std::byte* from, std::uint64_t bytes,
                    MPI_Datatype type) {
  return in_portions(type, to, elements, bytes, [&](void* these, int number, std::uint64_t at, int size) {
    HostBuffer host(these, number, type);
    int position = 0;
    int error = host.fetch()
                    ? PMPI_Unpack(from + at, size, &position, host.get(), number, type, MPI_COMM_SELF)
                    : MPI_ERR_BUFFER;
    return error == MPI_SUCCESS && !host.write_back() ? MPI_ERR_BUFFER : error;
  });
}

std::byte* at_element(const void* buffer, std::uint64_t number, MPI_Datatype type) {
  if (number == 0) return static_cast<std::byte*>(const_cast<void*>(buffer));
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  return static_cast<std::byte*>(const_cast<void*>(buffer)) + static_cast<std::ptrdiff_t>(number) * extent;
}

std::byte* begin_of(const BlockSide& side, Rank rank) {
  if (!side.types)
    return at_element(side.buffer, static_cast<std::uint64_t>(side.displacements[rank]), side.type);
  return static_cast<std::byte*>(const_cast<void*>(side.buffer)) + side.displacements[rank];
}

// As MPI names it.
bool is_dense_by_itself(MPI_Datatype type) {
  int size = 0;
  MPI_Aint lower = 0, extent = 0;
  return PMPI_Type_size(type, &size) == MPI_SUCCESS &&
         PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS && lower == 0 && extent == size;
}

}  // namespace

bool is_dense(MPI_Datatype type) {
  if (is_known(type)) return true;
  const int combiner = combiner_of(type);
  if (combiner == MPI_COMBINER_NAMED) return is_dense_by_itself(type);
  const Repeated repeated = repeated_by(type, combiner);
  return repeated.of && is_dense(repeated.of.get());
}

CallBuffers::Held& CallBuffers::held() {
  if (!held_) held_ = std::make_unique_for_overwrite<Held>();
  return *held_;
}

void CallBuffers::outlive_call(std::shared_ptr<const Blocks> blocks, std::shared_ptr<const Blocks> others) {
  if (are_none() && !blocks && !others) return;
  held().blocks[0] = std::move(blocks);
  held().blocks[1] = std::move(others);
  for (Portion& portion : held().portions()) {
    if (combiner_of(portion.type) == MPI_COMBINER_NAMED) continue;
    PMPI_Type_dup(portion.type, &portion.type);  // the program may free its own meanwhile
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

void* CallBuffers::reduce_by(MPI_Datatype type, MPI_Op op) {
  held().own = std::make_unique<OwnReductionCall>(type, op);
  return held().own.get();
}

std::byte* CallBuffers::hold(std::uint64_t bytes) {
  std::byte* memory = held().in.take(bytes);
  std::fill_n(memory, bytes, std::byte{});
  return memory;
}

int CallBuffers::bring_back() {
  if (!std::exchange(held_->brings_back, false)) return MPI_SUCCESS;
  if (held().to) {
    HostBuffer host(held().to, static_cast<int>(held().bytes), MPI_BYTE);
    std::memcpy(host.get(), held().out.data(), held().bytes);
    return host.write_back() ? MPI_SUCCESS : MPI_ERR_BUFFER;
  }
  const std::byte* from = held().out.data();
  for (const Portion& portion : held().portions()) {
    if (int error = unpack_elements(portion.to, portion.elements, from, portion.bytes, portion.type))
      return error;
    from += portion.bytes;
  }
  return MPI_SUCCESS;
}

}  // namespace ddl::mpi
