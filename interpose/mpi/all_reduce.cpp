#include <fmt/format.h>
#include <time.h>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/partition.hpp"
#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {

std::atomic<std::uint64_t> empty_blocking{0}, empty_nonblocking{0};

// Without elements there is nothing to do, and nobody to wait for.
int is_empty(std::atomic<std::uint64_t>& calls) {
  calls.fetch_add(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

int report_failure(MPI_Comm comm) {
  State& s = state();
  log_error(std::string(s.api->failure(s.job)));
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);  // aborts the job unless the program asked for error codes
  return MPI_ERR_OTHER;
}

// Runs the original and counts it with the reason; returns how long both took, which is what the program pays
// for the original with us in between (a tenth of a microsecond in six).
template <class Original>
Nanoseconds pass_through(const char* collective, const char* reason, int count, MPI_Datatype type,
                         int& result, Original original) {
  State& s = state();
  Nanoseconds began = now();
  result = original();
  Nanoseconds time = now() - began;
  if (s.job) s.api->count_original(s.job, collective, reason, bytes_of(count, type), time);
  return now() - began;
}

// Lets the original have the buffers, or copies of them that it can read.
template <class Original>
int on_host_memory(const void* in, void* out, int count, MPI_Datatype type, MPI_Comm comm,
                   Original original) {
  if (!needs_host_copy(in, out)) return original(in, out);
  HostBuffer from(const_cast<void*>(in), count, type), to(out, count, type);  // MPI_IN_PLACE is no memory
  // The output too: what lies between its elements must come back as it was.
  if (!from.fetch() || !to.fetch()) return report_device_failure("MPI_Allreduce", comm);
  int result = original(from.get(), to.get());
  if (result == MPI_SUCCESS && !to.write_back()) return report_device_failure("MPI_Allreduce", comm);
  return result;
}

// The original's nonblocking call on copies in host memory, which come back to the device when it is done.
class StagedOriginal : public PendingWork {
 public:
  StagedOriginal(const void* in, void* out, int count, MPI_Datatype type)
      : from_(const_cast<void*>(in), count, type), to_(out, count, type) {}
  bool fetch() { return from_.fetch() && to_.fetch(); }
  const void* in() const { return from_.get(); }
  void* out() const { return to_.get(); }
  MPI_Request* request() { return &request_; }

  // Moves the library, and comes back here in doing so: on_progress() knows.
  bool is_done() override {
    int done = 0;
    error_ = PMPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done || error_ != MPI_SUCCESS;
  }
  int finish() override {
    if (error_ != MPI_SUCCESS || to_.write_back()) return error_;
    log_error("MPI_Iallreduce cannot copy its result to the device");
    return MPI_ERR_OTHER;
  }

 private:
  HostBuffer from_, to_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int error_ = MPI_SUCCESS;
};

int iallreduce_on_host_memory(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm, MPI_Request* request) {
  if (!can_make_requests()) {
    log_error(Error::sentence("MPI_Iallreduce has a buffer in device memory",
                              "this MPI library cannot read it, and does not tell us when a copy is done",
                              "use MPI_Allreduce, or an MPI library that was built with CUDA"));
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
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
  int size = 0, me = 0, bytes = 0;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_rank(comm, &me);
  PMPI_Type_size(type, &bytes);
  std::vector<int> counts, offsets;
  for (int r = 0; r < size; ++r) {
    Range part = part_of({0, static_cast<Elements>(count)}, static_cast<std::uint64_t>(r),
                         static_cast<std::uint64_t>(size));
    counts.push_back(static_cast<int>(part.count));
    offsets.push_back(static_cast<int>(part.first));
  }
  std::vector<char> mine(
      static_cast<std::size_t>(counts[static_cast<std::size_t>(me)]) * static_cast<std::size_t>(bytes) + 1);
  int result = PMPI_Reduce_scatter(in == MPI_IN_PLACE ? out : in, mine.data(), counts.data(), type, op, comm);
  if (result != MPI_SUCCESS) return result;
  return PMPI_Allgatherv(mine.data(), counts[static_cast<std::size_t>(me)], type, out, counts.data(),
                         offsets.data(), type, comm);
}

}  // namespace

void count_empty_calls() {
  State& s = state();
  if (std::uint64_t calls = empty_blocking.exchange(0)) s.api->count_empty(s.job, "MPI_Allreduce", calls);
  if (std::uint64_t calls = empty_nonblocking.exchange(0)) s.api->count_empty(s.job, "MPI_Iallreduce", calls);
}

int report_device_failure(const char* collective, MPI_Comm comm) {
  log_error(fmt::format("{} cannot copy a buffer between device and host", collective));
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
  return MPI_ERR_OTHER;
}

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
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
  Route route = route_all_reduce(in, out, count, type, op, comm);
  route.call.collective = "MPI_Allreduce";
  const char* reason = route.reason;
  if (!reason && count == 0) return is_empty(empty_blocking);
  int result = MPI_SUCCESS;
  if (reason) {
    pass_through("MPI_Allreduce", reason, count, type, result, original);
    return result;
  }
  const ddl_engine_api* api = state().api;
  int outcome = api->run(route.comm->engine, &route.call, &reason);
  if (outcome == DDL_DONE) return MPI_SUCCESS;
  if (outcome == DDL_FAILED) return report_failure(comm);
  Nanoseconds time = outcome == DDL_ORIGINAL
                         ? pass_through("MPI_Allreduce", reason, count, type, result, original)
                         : pass_through("MPI_Allreduce", reason, count, type, result, in_two_steps);
  // Counted after an error too, which may be this rank's alone: the calls keep their numbers on all ranks.
  constexpr Nanoseconds kNoTime = 3'600'000'000'000;
  api->original_done(route.comm->engine, &route.call, result == MPI_SUCCESS ? time : kNoTime);
  return result;
}

int iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               MPI_Request* request) {
  auto original = [&] {
    return needs_host_copy(in, out) ? iallreduce_on_host_memory(in, out, count, type, op, comm, request)
                                    : DDL_NEXT(MPI_Iallreduce)(in, out, count, type, op, comm, request);
  };
  Route route = route_all_reduce(in, out, count, type, op, comm);
  route.call.collective = "MPI_Iallreduce";
  if (!route.reason && !state().api->nonblocking(state().job))
    route.reason = "nonblocking without progress hook";
  int result = MPI_SUCCESS;
  if (!route.reason && count == 0) {
    is_empty(empty_nonblocking);
    return make_done_request(request);
  }
  if (!route.reason) {
    Pending* call = new_pending(route.comm);
    int outcome = state().api->start(route.comm->engine, &route.call, call, &route.reason);
    if (outcome == DDL_UNDER_WAY) return make_request(call, request);
    drop_pending(call);
    if (outcome == DDL_DONE) return make_done_request(request);
    if (outcome == DDL_FAILED) return report_failure(comm);
  }
  pass_through("MPI_Iallreduce", route.reason, count, type, result, original);
  return result;
}

}  // namespace ddl::mpi
