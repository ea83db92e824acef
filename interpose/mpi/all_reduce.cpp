#include <time.h>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {

int report_failure(MPI_Comm comm) {
  State& s = state();
  log_error(std::string(s.api->failure(s.job)));
  PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);  // aborts the job unless the program asked for error codes
  return MPI_ERR_OTHER;
}

// Runs the original and counts it with the reason.
template <class Original>
int pass_through(const char* collective, const char* reason, int count, MPI_Datatype type,
                 Original original) {
  State& s = state();
  if (!s.job) return original();
  Nanoseconds began = now();
  int result = original();
  s.api->count_original(s.job, collective, reason, bytes_of(count, type), now() - began);
  return result;
}

}  // namespace

int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  Route route = route_all_reduce(in, out, count, type, op, comm);
  if (route.reason)
    return pass_through("MPI_Allreduce", route.reason, count, type,
                        [&] { return DDL_NEXT(MPI_Allreduce)(in, out, count, type, op, comm); });
  const ddl_engine_api* api = state().api;
  route.call.collective = "MPI_Allreduce";
  return api->run(route.comm->engine, &route.call) ? MPI_SUCCESS : report_failure(comm);
}

int iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
               MPI_Request* request) {
  Route route = route_all_reduce(in, out, count, type, op, comm);
  if (!route.reason && !state().api->nonblocking(state().job))
    route.reason = "nonblocking without progress hook";
  if (route.reason)
    return pass_through("MPI_Iallreduce", route.reason, count, type,
                        [&] { return DDL_NEXT(MPI_Iallreduce)(in, out, count, type, op, comm, request); });
  route.call.collective = "MPI_Iallreduce";
  ddl_work* work = state().api->start(route.comm->engine, &route.call);
  return work ? make_request(work, route.comm, request) : report_failure(comm);
}

}  // namespace ddl::mpi
