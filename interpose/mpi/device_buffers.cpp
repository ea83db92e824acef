#include "interpose/mpi/device_buffers.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

// An MPI library built with CUDA says so.
bool reads_device_memory() {
  using Query = int();
  static auto* query = reinterpret_cast<Query*>(::dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  static const bool answer = query && query() == 1;
  return answer;
}

}  // namespace

bool needs_host_copy(const void* one, const void* other) {
  return state().active && state().api->is_device(one, other) && !reads_device_memory();
}

bool is_device(const void* buffer, MPI_Datatype type) {
  if (!state().active) return false;
  MPI_Aint first = 0, extent = 0;
  if (buffer == MPI_BOTTOM) PMPI_Type_get_true_extent(type, &first, &extent);
  const void* at = static_cast<const std::byte*>(buffer) + first;
  return state().api->is_device(at, at);
}

HostBuffer::HostBuffer(void* buffer, int count, MPI_Datatype type)
    : buffer_(buffer), is_device_(ddl::mpi::is_device(buffer, type)) {
  if (count <= 0 || !is_device_ || reads_device_memory()) return;
  MPI_Aint lower = 0, extent = 0, true_extent = 0;
  PMPI_Type_get_extent(type, &lower, &extent);
  PMPI_Type_get_true_extent(type, &first_, &true_extent);
  const MPI_Aint to_the_last = (count - 1) * extent;
  first_ += std::min<MPI_Aint>(to_the_last, 0);
  bytes_ = std::abs(to_the_last) + true_extent;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes_));
}

bool HostBuffer::fetch() {
  return !copy_ || state().api->copy_device(copy_.get(), static_cast<std::byte*>(buffer_) + first_,
                                            static_cast<std::size_t>(bytes_));
}

bool HostBuffer::write_back() {
  return !copy_ || state().api->copy_device(static_cast<std::byte*>(buffer_) + first_, copy_.get(),
                                            static_cast<std::size_t>(bytes_));
}

int report_device_failure(const char* collective, MPI_Comm comm) {
  return report_error(fmt::format("{} cannot copy a buffer between device and host", collective), comm);
}

}  // namespace ddl::mpi
