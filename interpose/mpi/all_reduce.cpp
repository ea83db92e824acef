#include <fmt/format.h>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/partition.hpp"
#include "interpose/mpi/collectives.hpp"
#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/guard.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

// Lets the original have the buffers, or copies of them that it can read.
template <class Original>
int on_host_memory(const void* in, void* out, int count, MPI_Datatype type, MPI_Comm comm,
                   const Original& original) {
  if (!needs_host_copy(in, out)) return original(in, out);
  HostBuffer from(const_cast<void*>(in), count, type), to(out, count, type);  // MPI_IN_PLACE is no memory
  // The output too: what lies between its elements must come back as it was.
  if (!from.fetch() || !to.fetch()) return report_device_failure("MPI_Allreduce", comm);
  int result = original(from.get(), to.get());
  if (result == MPI_SUCCESS && !to.write_back()) return report_device_failure("MPI_Allreduce", comm);
  return result;
}

// The original's nonblocking call on copies in host memory, which come back to the device when it is done.
class StagedOriginal : public OriginalWork {
 public:
  StagedOriginal(const void* in, void* out, int count, MPI_Datatype type)
      : from_(const_cast<void*>(in), count, type), to_(out, count, type) {}
  bool fetch() { return from_.fetch() && to_.fetch(); }
  const void* in() const { return from_.get(); }
  void* out() const { return to_.get(); }
  MPI_Request* request() { return &request_; }
  int finish() override {
    if (error_ != MPI_SUCCESS || to_.write_back()) return error_;
    log_error("MPI_Iallreduce cannot copy its result to the device");
    return MPI_ERR_OTHER;
  }

 private:
  HostBuffer from_, to_;
};

int iallreduce_on_host_memory(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  if (!can_make_requests()) {
    return report_error(
        Error::sentence("MPI_Iallreduce has a buffer in device memory",
                        "this MPI library cannot read it, and does not tell us when a copy is done",
                        "use MPI_Allreduce, or an MPI library that was built with CUDA"),
        comm);
  }
  auto staged = std::make_unique<StagedOriginal>(in, out, count, type);
  if (!staged->fetch()) return report_device_failure("MPI_Iallreduce", comm);
  int result =
      DDL_NEXT(MPI_Iallreduce)(staged->in(), staged->out(), count, type, op, comm, staged->request());
  return result == MPI_SUCCESS ? make_request(std::move(staged), request) : result;
}

// The MPI library's own reduce-scatter and all-gather: IBM's mode m.
int reduce_scatter_and_gather(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm) {
  int size = 0, me = 0;
  MPI_Aint lower = 0, extent = 0;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_rank(comm, &me);
  PMPI_Type_get_extent(type, &lower, &extent);  // a pair may have a gap
  std::vector<int> counts, offsets;
  for (int r = 0; r < size; ++r) {
    Range part = part_of({0, static_cast<Elements>(count)}, static_cast<std::uint64_t>(r),
                         static_cast<std::uint64_t>(size));
    counts.push_back(static_cast<int>(part.count));
    offsets.push_back(static_cast<int>(part.first));
  }
  std::vector<char> mine(
      static_cast<std::size_t>(counts[static_cast<std::size_t>(me)]) * static_cast<std::size_t>(extent) + 1);
  int result = PMPI_Reduce_scatter(in == MPI_IN_PLACE ? out : in, mine.data(), counts.data(), type, op, comm);
  if (result != MPI_SUCCESS) return result;
  return PMPI_Allgatherv(mine.data(), counts[static_cast<std::size_t>(me)], type, out, counts.data(),
                         offsets.data(), type, comm);
}

}  // namespace

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  Made made = reduction_made(Collective::all_reduce, in, out, count, type, op, 0, comm, Form::blocking);
  auto original = [&] {
    return on_host_memory(in, out, count, type, comm, [&](const void* from, void* to) {
      return DDL_NEXT(MPI_Allreduce)(from, to, count, type, op, comm);
    });
  };
  auto in_two_steps = [&] {
    return on_host_memory(in, out, count, type, comm, [&](const void* from, void* to) {
      return reduce_scatter_and_gather(from, to, count, type, op, comm);
    });
  };
  if (const std::optional<int> done = reduce_again(made, type, original)) return *done;
  RoutedCall route = route_reduction({}, in, out, count, type, op, comm);
  note_passed(made, route);
  return run_call(Collective::all_reduce, route, comm, adapt_reduction, original, in_two_steps, &made);
}

int iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               MPI_Request* request) {
  const Made made =
      reduction_made(Collective::all_reduce, in, out, count, type, op, 0, comm, Form::nonblocking);
  auto original = [&] {
    return needs_host_copy(in, out) ? iallreduce_on_host_memory(in, out, count, type, op, comm, request)
                                    : DDL_NEXT(MPI_Iallreduce)(in, out, count, type, op, comm, request);
  };
  if (const std::optional<int> done = start_reduction_again(made, request, original)) return *done;
  RoutedCall route = route_reduction({}, in, out, count, type, op, comm);
  note_passed(made, route);
  return start_call(Collective::all_reduce, route, comm, request, adapt_started_reduction, original, &made);
}

}  // namespace ddl::mpi
