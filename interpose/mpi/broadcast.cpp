// MPI_Bcast: the original's, on host memory where the program's is a device's that it cannot read.
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {

int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  auto original = [&](void* from_or_to) { return DDL_NEXT(MPI_Bcast)(from_or_to, count, type, root, comm); };
  if (!needs_host_copy(buffer, buffer)) return original(buffer);
  Nanoseconds began = now();
  HostBuffer host(buffer, count, type);
  // Of those who receive too: what lies between the elements must come back as it was.
  if (!host.fetch()) return report_device_failure("MPI_Bcast", comm);
  int result = original(host.get());
  if (result == MPI_SUCCESS && !host.write_back()) return report_device_failure("MPI_Bcast", comm);
  state().api->count_original(state().job, "MPI_Bcast", "device memory, through the host",
                              bytes_of(count, type), now() - began);
  return result;
}

}  // namespace ddl::mpi
