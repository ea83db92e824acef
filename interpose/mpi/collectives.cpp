// The hooks of all collectives but all-reduce: each says what the engine is to do, and what the original is.
#include "interpose/mpi/collectives.hpp"

#include <array>

#include "interpose/mpi/device_buffers.hpp"
#include "interpose/mpi/packed_call.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/vector_routes.hpp"

namespace ddl::mpi {
namespace {

// Elements of a type that the program made, maybe for this call alone: to the engine they are bytes, and the
// call is kept as one of so many bytes. But of an all-to-all in place the engine knows where the own block
// lies, which is another place in the next one.
bool moves_bytes(const RoutedCall& route, const Side& in) {
  const bool knows_places = route.call.kind == DDL_ALL_TO_ALL && in.buffer == MPI_IN_PLACE;
  return !route.reason && !route.is_lasting && route.bytes <= KeptCalls::kMostBytes && !knows_places;
}
// `again` makes it once more if it is kept, `anew` otherwise.
template <class Again, class Anew>
int as_bytes(Collective collective, Form form, RoutedCall& route, const Side& in, const Side& out,
             MPI_Comm comm, Again again, Anew anew) {
  Made made{said_by_bytes(collective, route.bytes, route.call.root, form), nullptr, nullptr, comm};
  auto adapt = [&](RoutedCall& to, CallBuffers& buffers) {
    const bool is_readable = adapt_movement(to, in, out, buffers);
    made.in = to.call.in;
    made.out = to.call.out;
    return is_readable;
  };
  if (kept_call(*route.comm, made.said, {})) {
    CallBuffers buffers;
    route.is_settled = true;
    if (!adapt(route, buffers)) return report_unreadable(collective, form, comm);
    if (const std::optional<int> done = again(made, buffers)) return *done;
    route.is_settled = false;
  }
  return anew(adapt, &made);
}

template <class Original>
int move_bytes(Collective collective, RoutedCall& route, const Side& in, const Side& out, MPI_Comm comm,
               const Original& original) {
  auto again = [&](const Made& made, CallBuffers& buffers) {
    const std::optional<int> done = run_kept(made);
    if (done != MPI_SUCCESS) return done;
    return std::optional(buffers.finish());
  };
  return as_bytes(collective, Form::blocking, route, in, out, comm, again, [&](auto adapt, const Made* made) {
    return run_call(collective, route, comm, adapt, original, made);
  });
}

template <class Original>
int start_bytes(Collective collective, RoutedCall& route, const Side& in, const Side& out, MPI_Comm comm,
                MPI_Request* request, const Original& original) {
  auto again = [&](const Made& made, CallBuffers& buffers) { return start_kept(made, request, &buffers); };
  return as_bytes(collective, Form::nonblocking, route, in, out, comm, again,
                  [&](auto adapt, const Made* made) {
                    return start_call(collective, route, comm, request, adapt, original, made);
                  });
}

template <class Original>
int move(Collective collective, Task task, const Side& in, const Side& out, MPI_Comm comm,
         const Original& original) {
  const Made made{
      {in.type, out.type, in.count, out.count, task.root, collective, SaidCall::about(in.buffer, out.buffer),
       Form::blocking},
      in.buffer,
      out.buffer,
      comm};
  if (const std::optional<int> done = run_kept(made)) return *done;
  if (const std::optional<int> done = run_packed(collective, task, in, out, comm)) return *done;
  RoutedCall route = route_movement(task, in, out, comm);
  if (moves_bytes(route, in)) return move_bytes(collective, route, in, out, comm, original);
  auto adapt = [&](RoutedCall& to, CallBuffers& buffers) { return adapt_movement(to, in, out, buffers); };
  return run_call(collective, route, comm, adapt, original, &made);
}

template <class Original>
int reduce_by(Collective collective, Task task, const void* in, void* out, int count, MPI_Datatype type,
              MPI_Op op, MPI_Comm comm, const Original& original) {
  Made made = reduction_made(collective, in, out, count, type, op, task.root, comm, Form::blocking);
  if (const std::optional<int> done = reduce_again(made, type, original)) return *done;
  RoutedCall route = route_reduction(task, in, out, count, type, op, comm);
  note_passed(made, route);
  return run_call(collective, route, comm, adapt_reduction, original, &made);
}

template <class Original>
int start_move(Collective collective, Task task, const Side& in, const Side& out, MPI_Comm comm,
               MPI_Request* request, const Original& original) {
  const Made made{{in.type, out.type, in.count, out.count, task.root, collective,
                   SaidCall::about(in.buffer, out.buffer), Form::nonblocking},
                  in.buffer,
                  out.buffer,
                  comm};
  if (const std::optional<int> done = start_kept(made, request)) return *done;
  RoutedCall route = route_movement(task, in, out, comm);
  if (moves_bytes(route, in)) return start_bytes(collective, route, in, out, comm, request, original);
  auto adapt = [&](RoutedCall& to, CallBuffers& buffers) { return adapt_movement(to, in, out, buffers); };
  return start_call(collective, route, comm, request, adapt, original, &made);
}

template <class Original>
int start_reduce(Collective collective, Task task, const void* in, void* out, int count, MPI_Datatype type,
                 MPI_Op op, MPI_Comm comm, MPI_Request* request, const Original& original) {
  const Made made = reduction_made(collective, in, out, count, type, op, task.root, comm, Form::nonblocking);
  if (const std::optional<int> done = start_reduction_again(made, request, original)) return *done;
  RoutedCall route = route_reduction(task, in, out, count, type, op, comm);
  note_passed(made, route);
  return start_call(collective, route, comm, request, adapt_started_reduction, original, &made);
}

// The original's broadcast, on host memory where the program's is a device's that it cannot read.
int broadcast_original(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  if (!needs_host_copy(buffer, buffer)) return DDL_NEXT(MPI_Bcast)(buffer, count, type, root, comm);
  HostBuffer host(buffer, count, type);
  // Of those who receive too: what lies between the elements must come back as it was.
  if (!host.fetch()) return report_device_failure("MPI_Bcast", comm);
  int result = DDL_NEXT(MPI_Bcast)(host.get(), count, type, root, comm);
  if (result == MPI_SUCCESS && !host.write_back()) return report_device_failure("MPI_Bcast", comm);
  return result;
}

}  // namespace

int bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const Side side{buffer, count, type};
  return move(Collective::broadcast, {Kind::broadcast, root}, side, side, comm,
              [&] { return broadcast_original(buffer, count, type, root, comm); });
}

int ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  const Side side{buffer, count, type};
  return start_move(Collective::broadcast, {Kind::broadcast, root}, side, side, comm, request,
                    [&] { return DDL_NEXT(MPI_Ibcast)(buffer, count, type, root, comm, request); });
}

int reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
  return reduce_by(Collective::reduce, {Kind::reduce, root}, in, out, count, type, op, comm,
                   [&] { return DDL_NEXT(MPI_Reduce)(in, out, count, type, op, root, comm); });
}

int ireduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
            MPI_Request* request) {
  return start_reduce(Collective::reduce, {Kind::reduce, root}, in, out, count, type, op, comm, request,
                      [&] { return DDL_NEXT(MPI_Ireduce)(in, out, count, type, op, root, comm, request); });
}

int reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm) {
  Made made = reduction_made(Collective::reduce_scatter, in, out, 0, type, op, 0, comm, Form::blocking);
  made.lists = {counts};
  if (const std::optional<int> done = run_kept_by_name(made, type)) return *done;
  RoutedCall route = route_reduce_scatter(in, out, counts, type, op, comm);
  return run_call(
      Collective::reduce_scatter, route, comm, adapt_reduction,
      [&] { return DDL_NEXT(MPI_Reduce_scatter)(in, out, counts, type, op, comm); }, &made);
}

int ireduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                    MPI_Comm comm, MPI_Request* request) {
  Made made = reduction_made(Collective::reduce_scatter, in, out, 0, type, op, 0, comm, Form::nonblocking);
  made.lists = {counts};
  if (const std::optional<int> done = start_kept(made, request)) return *done;
  RoutedCall route = route_reduce_scatter(in, out, counts, type, op, comm);
  return start_call(
      Collective::reduce_scatter, route, comm, request, adapt_started_reduction,
      [&] { return DDL_NEXT(MPI_Ireduce_scatter)(in, out, counts, type, op, comm, request); }, &made);
}

int reduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return reduce_by(Collective::reduce_scatter_block, {Kind::reduce_scatter}, in, out, count, type, op, comm,
                   [&] { return DDL_NEXT(MPI_Reduce_scatter_block)(in, out, count, type, op, comm); });
}

int ireduce_scatter_block(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request* request) {
  return start_reduce(
      Collective::reduce_scatter_block, {Kind::reduce_scatter}, in, out, count, type, op, comm, request,
      [&] { return DDL_NEXT(MPI_Ireduce_scatter_block)(in, out, count, type, op, comm, request); });
}

int allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm) {
  return move(Collective::all_gather, {Kind::all_gather}, {in, in_count, in_type}, {out, out_count, out_type},
              comm,
              [&] { return DDL_NEXT(MPI_Allgather)(in, in_count, in_type, out, out_count, out_type, comm); });
}

int iallgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
               MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start_move(Collective::all_gather, {Kind::all_gather}, {in, in_count, in_type},
                    {out, out_count, out_type}, comm, request, [&] {
                      return DDL_NEXT(MPI_Iallgather)(in, in_count, in_type, out, out_count, out_type, comm,
                                                      request);
                    });
}

int alltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, MPI_Comm comm) {
  return move(Collective::all_to_all, {Kind::all_to_all}, {in, in_count, in_type}, {out, out_count, out_type},
              comm,
              [&] { return DDL_NEXT(MPI_Alltoall)(in, in_count, in_type, out, out_count, out_type, comm); });
}

int ialltoall(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
              MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  return start_move(Collective::all_to_all, {Kind::all_to_all}, {in, in_count, in_type},
                    {out, out_count, out_type}, comm, request, [&] {
                      return DDL_NEXT(MPI_Ialltoall)(in, in_count, in_type, out, out_count, out_type, comm,
                                                     request);
                    });
}

int gather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
           MPI_Datatype out_type, int root, MPI_Comm comm) {
  return move(
      Collective::gather, {Kind::gather, root}, {in, in_count, in_type}, {out, out_count, out_type}, comm,
      [&] { return DDL_NEXT(MPI_Gather)(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

int igather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start_move(Collective::gather, {Kind::gather, root}, {in, in_count, in_type},
                    {out, out_count, out_type}, comm, request, [&] {
                      return DDL_NEXT(MPI_Igather)(in, in_count, in_type, out, out_count, out_type, root,
                                                   comm, request);
                    });
}

int scatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
            MPI_Datatype out_type, int root, MPI_Comm comm) {
  return move(
      Collective::scatter, {Kind::scatter, root}, {in, in_count, in_type}, {out, out_count, out_type}, comm,
      [&] { return DDL_NEXT(MPI_Scatter)(in, in_count, in_type, out, out_count, out_type, root, comm); });
}

int iscatter(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count,
             MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  return start_move(Collective::scatter, {Kind::scatter, root}, {in, in_count, in_type},
                    {out, out_count, out_type}, comm, request, [&] {
                      return DDL_NEXT(MPI_Iscatter)(in, in_count, in_type, out, out_count, out_type, root,
                                                    comm, request);
                    });
}

int barrier(MPI_Comm comm) {
  char mine = 0, all = 0;
  CommState* known = state_of_noted(comm);
  const bool comes_again = known && known->ends_with_barrier;
  const Made made{
      {nullptr, nullptr, comes_again, 0, 0, Collective::barrier, 0, Form::blocking}, &mine, &all, comm};
  if (const std::optional<int> done = run_kept(made, known)) return *done;
  RoutedCall route = route_barrier(comm, comes_again);
  route.call.in = &mine;
  route.call.out = &all;
  auto adapt = [](RoutedCall&, CallBuffers&) { return true; };
  return run_call(
      Collective::barrier, route, comm, adapt, [&] { return DDL_NEXT(MPI_Barrier)(comm); }, &made);
}

int ibarrier(MPI_Comm comm, MPI_Request* request) {
  static std::array<std::byte, 2> zeros;  // of all that are under way
  const Made made{
      {nullptr, nullptr, 0, 0, 0, Collective::barrier, 0, Form::nonblocking}, &zeros[0], &zeros[1], comm};
  if (const std::optional<int> done = start_kept(made, request)) return *done;
  RoutedCall route = route_barrier(comm, false);
  route.call.in = &zeros[0];
  route.call.out = &zeros[1];
  auto adapt = [](RoutedCall&, CallBuffers&) { return true; };
  return start_call(
      Collective::barrier, route, comm, request, adapt, [&] { return DDL_NEXT(MPI_Ibarrier)(comm, request); },
      &made);
}

}  // namespace ddl::mpi
