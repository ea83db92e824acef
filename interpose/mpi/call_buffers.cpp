#include "interpose/mpi/call_buffers.hpp"

#include <algorithm>
#include <cstring>

#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

// MPI counts packed bytes in an int.
constexpr std::uint64_t kMostAtOnce = 1 << 30;

// Calls `body` with a pointer to elements of `side`, their number and their place among packed bytes.
template <class Body>
int in_portions(MPI_Datatype type, void* buffer, std::uint64_t elements, std::uint64_t bytes, Body body) {
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
  if (combiner_of(type) == MPI_COMBINER_NAMED) return is_dense_by_itself(type);
  const Repeated repeated = repeated_by(type);
  return repeated.of && is_dense(repeated.of.get());
}

const void* CallBuffers::pack(const Side& side, std::uint64_t first, std::uint64_t elements,
                              std::uint64_t bytes) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(side.type, &lower, &extent);
  in_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  auto* from =
      static_cast<std::byte*>(const_cast<void*>(side.buffer)) + static_cast<std::ptrdiff_t>(first) * extent;
  int error =
      in_portions(side.type, from, elements, bytes, [&](void* these, int number, std::uint64_t at, int size) {
        HostBuffer host(these, number, side.type);
        int position = 0;
        return host.fetch()
                   ? PMPI_Pack(host.get(), number, side.type, in_.get() + at, size, &position, MPI_COMM_SELF)
                   : MPI_ERR_BUFFER;
      });
  return error ? nullptr : in_.get();
}

void* CallBuffers::unpack_later(const Side& side, std::uint64_t elements, std::uint64_t bytes) {
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  PMPI_Type_dup(side.type, &copy);
  type_.reset(copy);
  elements_ = elements;
  return copy_later(const_cast<void*>(side.buffer), bytes);
}

void* CallBuffers::copy_later(void* to, std::uint64_t bytes) {
  out_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  to_ = to;
  bytes_ = bytes;
  brings_back_ = true;
  return out_.get();
}

void* CallBuffers::reduce_by(MPI_Datatype type, MPI_Op op) {
  own_ = std::make_unique<OwnReductionCall>(type, op);
  return own_.get();
}

std::byte* CallBuffers::hold(std::uint64_t bytes) {
  in_ = std::make_unique<std::byte[]>(bytes);
  return in_.get();
}

int CallBuffers::bring_back() {
  brings_back_ = false;
  if (!type_) {
    HostBuffer host(to_, static_cast<int>(bytes_), MPI_BYTE);
    std::memcpy(host.get(), out_.get(), bytes_);
    return host.write_back() ? MPI_SUCCESS : MPI_ERR_BUFFER;
  }
  return in_portions(type_.get(), to_, elements_, bytes_,
                     [&](void* these, int number, std::uint64_t at, int size) {
                       HostBuffer host(these, number, type_.get());
                       int position = 0;
                       int error = host.fetch() ? PMPI_Unpack(out_.get() + at, size, &position, host.get(),
                                                              number, type_.get(), MPI_COMM_SELF)
                                                : MPI_ERR_BUFFER;
                       return error == MPI_SUCCESS && !host.write_back() ? MPI_ERR_BUFFER : error;
                     });
}

}  // namespace ddl::mpi
