// What all hooks of collectives do: a call is made by the engine, or by the original library with the reason
// counted.
#pragma once

#include <mpi.h>

#include <utility>

#include "core/base/clock.hpp"
#include "interpose/mpi/route.hpp"

namespace ddl::mpi {

/// Counts a call without elements: there is nothing to do, and nobody to wait for.
int done_without_elements(Collective collective, Form form);
/// Tells the report how many there were.
void count_empty_calls();

/// The engine has failed: says why and asks the error handler of the communicator.
int report_failure(MPI_Comm comm);
/// Likewise, of buffers that cannot be read or written.
int report_unreadable(Collective collective, Form form, MPI_Comm comm);

/// Runs the original and counts it with the reason; returns how long both took, which is what the program
/// pays for the original with us in between (a tenth of a microsecond in six).
template <class Original>
Nanoseconds pass_through(Collective collective, Form form, const Route& route, int& result,
                         Original original) {
  State& s = state();
  const Nanoseconds began = now();
  result = original();
  const Nanoseconds time = now() - began;
  if (s.job) s.api->count_original(s.job, name_of(collective, form), route.reason, route.bytes, time);
  return now() - began;
}

/// A blocking call. `adapt` readies the buffers for the engine, false where it cannot; `in_two_steps` is what
/// the original does in mode m.
template <class Adapt, class Original, class InTwoSteps>
int run_call(Collective collective, Route& route, MPI_Comm comm, Adapt adapt, Original original,
             InTwoSteps in_two_steps) {
  if (!route.reason && route.call.count == 0) return done_without_elements(collective, Form::blocking);
  route.call.name = name_of(collective, Form::blocking);
  int result = MPI_SUCCESS;
  CallBuffers buffers;
  if (!route.reason && !adapt(route, buffers)) return report_unreadable(collective, Form::blocking, comm);
  if (route.reason) {
    pass_through(collective, Form::blocking, route, result, original);
    return result;
  }
  const ddl_engine_api* api = state().api;
  const ddl_outcome outcome = api->run(route.comm->engine, &route.call, &route.reason);
  if (outcome == DDL_DONE) return buffers.finish();
  if (outcome == DDL_FAILED) return report_failure(comm);
  const Nanoseconds time = outcome == DDL_ORIGINAL
                               ? pass_through(collective, Form::blocking, route, result, original)
                               : pass_through(collective, Form::blocking, route, result, in_two_steps);
  // Counted after an error too, which may be this rank's alone: the calls keep their numbers on all ranks.
  constexpr Nanoseconds kNoTime = 3'600'000'000'000;
  api->original_done(route.comm->engine, &route.call, result == MPI_SUCCESS ? time : kNoTime);
  return result;
}

template <class Adapt, class Original>
int run_call(Collective collective, Route& route, MPI_Comm comm, Adapt adapt, Original original) {
  return run_call(collective, route, comm, adapt, original, original);
}

/// A nonblocking one.
template <class Adapt, class Original>
int start_call(Collective collective, Route& route, MPI_Comm comm, MPI_Request* request, Adapt adapt,
               Original original) {
  if (!route.reason && !state().api->nonblocking(state().job))
    route.reason = "nonblocking without progress hook";
  if (!route.reason && route.call.count == 0) {
    done_without_elements(collective, Form::nonblocking);
    return make_done_request(request);
  }
  route.call.name = name_of(collective, Form::nonblocking);
  CallBuffers buffers;
  if (!route.reason && !adapt(route, buffers)) return report_unreadable(collective, Form::nonblocking, comm);
  if (!route.reason) {
    Pending* call = new_pending(route.comm, std::move(buffers));
    const ddl_outcome outcome = state().api->start(route.comm->engine, &route.call, call, &route.reason);
    if (outcome == DDL_UNDER_WAY) return make_request(call, request);
    const int finished = outcome == DDL_DONE ? finish_pending(call) : MPI_SUCCESS;
    drop_pending(call);
    if (finished != MPI_SUCCESS) return finished;
    if (outcome == DDL_DONE) return make_done_request(request);
    if (outcome == DDL_FAILED) return report_failure(comm);
  }
  int result = MPI_SUCCESS;
  pass_through(collective, Form::nonblocking, route, result, original);
  return result;
}

}  // namespace ddl::mpi
