// The hooks of the collectives with a count for every rank: each says what the engine is to do, and what the
// original is.
#include "interpose/mpi/collectives.hpp"
#include "interpose/mpi/kept_exchange.hpp"
#include "interpose/mpi/packed_call.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/vector_routes.hpp"

namespace ddl::mpi {
namespace {

constexpr Collective kAllGather = Collective::all_gather_v, kGather = Collective::gather_v,
                     kScatter = Collective::scatter_v, kAllToAll = Collective::all_to_all_v,
                     kAllToAllTypes = Collective::all_to_all_w;

// A call, and the types that count on this rank.
struct NamedMade {
  Made made;
  MPI_Datatype type, other;  // null: none

  bool has_known_types() const { return is_known(type) && (!other || is_known(other)); }
  // What a persistent request starts is kept by the names of its types, which live as long as that.
  std::optional<int> start_kept(MPI_Request* request) {
    return PersistentStart::current() ? start_kept_by_name(made, request, type, other)
                                      : mpi::start_kept(made, request);
  }
};
NamedMade all_gather_made(const Side& in, const BlockSide& out, MPI_Comm comm, Form form) {
  const Made made{
      {in.type, out.type, in.count, 0, 0, kAllGather, SaidCall::about(in.buffer, out.buffer), form},
      in.buffer,
      out.buffer,
      comm,
      {out.counts, out.displacements}};
  return {made, in.buffer == MPI_IN_PLACE ? out.type : in.type, out.type};
}
// In place there are copies each time, and nothing is kept.
NamedMade all_to_all_made(const Pairs& pairs, MPI_Comm comm, Form form) {
  const BlockSide &in = pairs.in, &out = pairs.out;
  Made made{{in.type, out.type, 0, 0, 0, kAllToAll, SaidCall::about(in.buffer, out.buffer), form},
            in.buffer,
            out.buffer,
            comm};
  if (!pairs.in_place) made.lists = {out.counts, out.displacements, in.counts, in.displacements};
  return {made, pairs.in_place ? out.type : in.type, out.type};
}
// With the root's lists and type, of which the others know nothing.
NamedMade rooted_made(Collective collective, const Side& one, const BlockSide& many, const void* in,
                      const void* out, int root, MPI_Comm comm, Form form) {
  Made made{
      {one.type, many.type, one.count, 0, root, collective, SaidCall::about(in, out), form}, in, out, comm};
  const CommState* known = state_of_noted(comm);
  if (!known || known->me != root) return {made, one.type, nullptr};
  made.lists = {many.counts, many.displacements};
  return {made, one.buffer == MPI_IN_PLACE ? many.type : one.type, many.type};
}

// Makes it by a kept one that differs in its counts alone; nothing: there is none.
std::optional<int> run_alike(const NamedMade& named, const BlockSide* in, const BlockSide& out,
                             const Side* own = nullptr) {
  const Made& made = named.made;
  CommState* comm = named.has_known_types() ? state_of_noted(made.comm) : nullptr;
  const KeptCall* kept = comm ? kept_alike(*comm, made, in, out, own) : nullptr;
  if (!kept) return std::nullopt;
  return make_again(*kept, *comm, made, kept->in.at(made.in, made.out), kept->out.at(made.in, made.out));
}
std::optional<int> start_alike(const NamedMade& named, const BlockSide* in, const BlockSide& out,
                               MPI_Request* request, const Side* own = nullptr) {
  const bool may_be_kept = named.has_known_types() && !PersistentStart::current();
  CommState* comm = may_be_kept ? state_of_noted(named.made.comm) : nullptr;
  const KeptCall* kept = comm ? kept_alike(*comm, named.made, in, out, own) : nullptr;
  return kept ? start_again(*kept, *comm, named.made, request, nullptr) : std::nullopt;
}

// A call that is not kept as it was made. `named`: to be kept as that, where MPI names all its types or a
// persistent request starts it.
// `again` makes it as one of so many bytes, if it is kept as that; `anew` otherwise.
template <class Route, class Adapt, class Again, class Anew>
int exchange_anew(Collective collective, Form form, const BlockSide& in, const BlockSide& out, int root,
                  MPI_Comm comm, const NamedMade* named, Route find_route, Adapt adapt, Again again,
                  Anew anew) {
  const bool is_persistent = form == Form::nonblocking && PersistentStart::current();
  if (is_persistent || (named && named->has_known_types())) {
    RoutedCall route = find_route();
    return anew(route, adapt, named ? &named->made : nullptr);
  }
  PackedExchange packed(collective, form, in, out, root, comm);
  if (packed.is_one())
    if (const std::optional<int> done = again(packed)) return *done;
  auto adapt_packed = [&](RoutedCall& to, CallBuffers& buffers) {
    const bool is_readable = adapt(to, buffers);
    packed.give(to.call);
    return is_readable;
  };
  RoutedCall route = find_route();
  return anew(route, adapt_packed, packed.made());
}

template <class Route, class Adapt, class Original>
int run_anew(Collective collective, const BlockSide& in, const BlockSide& out, int root, MPI_Comm comm,
             const NamedMade* named, Route find_route, Adapt adapt, const Original& original) {
  return exchange_anew(
      collective, Form::blocking, in, out, root, comm, named, find_route, adapt,
      [](PackedExchange& packed) { return packed.run_again(); },
      [&](RoutedCall& route, auto adapt_it, const Made* made) {
        return run_call(collective, route, comm, adapt_it, original, made);
      });
}

template <class Route, class Adapt, class Original>
int start_anew(Collective collective, const BlockSide& in, const BlockSide& out, int root, MPI_Comm comm,
               MPI_Request* request, const NamedMade* named, Route find_route, Adapt adapt,
               const Original& original) {
  return exchange_anew(
      collective, Form::nonblocking, in, out, root, comm, named, find_route, adapt,
      [&](PackedExchange& packed) { return packed.start_again(request); },
      [&](RoutedCall& route, auto adapt_it, const Made* made) {
        return start_call(collective, route, comm, request, adapt_it, original, made);
      });
}

template <class Original>
int exchange(Collective collective, const Pairs& pairs, int root, MPI_Comm comm, const Original& original,
             const NamedMade* named = nullptr) {
  if (named)
    if (const std::optional<int> done = run_alike(*named, &pairs.in, pairs.out)) return *done;
  auto route = [&] { return route_pairs(collective, pairs, root, comm); };
  auto adapt = [&](RoutedCall& to, CallBuffers& buffers) { return adapt_pairs(to, pairs, buffers); };
  return run_anew(collective, pairs.in, pairs.out, root, comm, named, route, adapt, original);
}

template <class Original>
int start_exchange(Collective collective, const Pairs& pairs, int root, MPI_Comm comm, MPI_Request* request,
                   const Original& original, const NamedMade* named = nullptr) {
  if (named)
    if (const std::optional<int> done = start_alike(*named, &pairs.in, pairs.out, request)) return *done;
  auto route = [&] { return route_pairs(collective, pairs, root, comm); };
  auto adapt = [&](RoutedCall& to, CallBuffers& buffers) { return adapt_pairs(to, pairs, buffers); };
  return start_anew(collective, pairs.in, pairs.out, root, comm, request, named, route, adapt, original);
}

// An all-gather's own block as one side: where it lies among the others, in place.
struct OwnBlock {
  OwnBlock(const Side& in, const BlockSide& out, MPI_Comm comm)
      : count(in.count), block{in.buffer, &count, &at_its_beginning, in.type} {
    const CommState* known = state_of_noted(comm);
    if (in.buffer == MPI_IN_PLACE && known && out.counts && out.displacements)
      block = {out.buffer, out.counts + known->me, out.displacements + known->me, out.type};
  }
  OwnBlock(const OwnBlock&) = delete;
  OwnBlock& operator=(const OwnBlock&) = delete;

  const int count, at_its_beginning = 0;
  BlockSide block;
};

}  // namespace

int allgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
               const int displacements[], MPI_Datatype out_type, MPI_Comm comm) {
  const Side from{in, in_count, in_type};
  const BlockSide to{out, counts, displacements, out_type};
  NamedMade named = all_gather_made(from, to, comm, Form::blocking);
  if (const std::optional<int> done = run_kept(named.made)) return *done;
  if (const std::optional<int> done = run_alike(named, nullptr, to, &from)) return *done;
  auto route = [&] { return route_all_gather_v(from, to, comm); };
  auto adapt = [&](RoutedCall& it, CallBuffers& buffers) {
    return adapt_all_gather_v(it, from, to, buffers);
  };
  auto original = [&] {
    return DDL_NEXT(MPI_Allgatherv)(in, in_count, in_type, out, counts, displacements, out_type, comm);
  };
  const OwnBlock own(from, to, comm);
  return run_anew(kAllGather, own.block, to, 0, comm, &named, route, adapt, original);
}

int iallgatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
                const int displacements[], MPI_Datatype out_type, MPI_Comm comm, MPI_Request* request) {
  const Side from{in, in_count, in_type};
  const BlockSide to{out, counts, displacements, out_type};
  NamedMade named = all_gather_made(from, to, comm, Form::nonblocking);
  if (const std::optional<int> done = named.start_kept(request)) return *done;
  if (const std::optional<int> done = start_alike(named, nullptr, to, request, &from)) return *done;
  auto route = [&] { return route_all_gather_v(from, to, comm); };
  auto adapt = [&](RoutedCall& it, CallBuffers& buffers) {
    return adapt_all_gather_v(it, from, to, buffers);
  };
  auto original = [&] {
    return DDL_NEXT(MPI_Iallgatherv)(in, in_count, in_type, out, counts, displacements, out_type, comm,
                                     request);
  };
  const OwnBlock own(from, to, comm);
  return start_anew(kAllGather, own.block, to, 0, comm, request, &named, route, adapt, original);
}

int gatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
            const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm) {
  const Side one{in, in_count, in_type};
  const BlockSide many{out, counts, displacements, out_type};
  NamedMade named = rooted_made(kGather, one, many, in, out, root, comm, Form::blocking);
  if (const std::optional<int> done = run_kept(named.made)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Gatherv)(in, in_count, in_type, out, counts, displacements, out_type, root, comm);
  };
  return exchange(kGather, pairs_of_gather(one, many, root, comm), root, comm, original, &named);
}

int igatherv(const void* in, int in_count, MPI_Datatype in_type, void* out, const int counts[],
             const int displacements[], MPI_Datatype out_type, int root, MPI_Comm comm,
             MPI_Request* request) {
  const Side one{in, in_count, in_type};
  const BlockSide many{out, counts, displacements, out_type};
  NamedMade named = rooted_made(kGather, one, many, in, out, root, comm, Form::nonblocking);
  if (const std::optional<int> done = named.start_kept(request)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Igatherv)(in, in_count, in_type, out, counts, displacements, out_type, root, comm,
                                  request);
  };
  return start_exchange(kGather, pairs_of_gather(one, many, root, comm), root, comm, request, original,
                        &named);
}

int scatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
             int out_count, MPI_Datatype out_type, int root, MPI_Comm comm) {
  const Side one{out, out_count, out_type};
  const BlockSide many{in, counts, displacements, in_type};
  NamedMade named = rooted_made(kScatter, one, many, in, out, root, comm, Form::blocking);
  if (const std::optional<int> done = run_kept(named.made)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Scatterv)(in, counts, displacements, in_type, out, out_count, out_type, root, comm);
  };
  return exchange(kScatter, pairs_of_scatter(many, one, root, comm), root, comm, original, &named);
}

int iscatterv(const void* in, const int counts[], const int displacements[], MPI_Datatype in_type, void* out,
              int out_count, MPI_Datatype out_type, int root, MPI_Comm comm, MPI_Request* request) {
  const Side one{out, out_count, out_type};
  const BlockSide many{in, counts, displacements, in_type};
  NamedMade named = rooted_made(kScatter, one, many, in, out, root, comm, Form::nonblocking);
  if (const std::optional<int> done = named.start_kept(request)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Iscatterv)(in, counts, displacements, in_type, out, out_count, out_type, root, comm,
                                   request);
  };
  return start_exchange(kScatter, pairs_of_scatter(many, one, root, comm), root, comm, request, original,
                        &named);
}

int alltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
              void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
              MPI_Comm comm) {
  const Pairs pairs{{in, in_counts, in_displacements, in_type},
                    {out, out_counts, out_displacements, out_type},
                    in == MPI_IN_PLACE};
  NamedMade named = all_to_all_made(pairs, comm, Form::blocking);
  if (const std::optional<int> done = run_kept(named.made)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Alltoallv)(in, in_counts, in_displacements, in_type, out, out_counts,
                                   out_displacements, out_type, comm);
  };
  return exchange(kAllToAll, pairs, 0, comm, original, &named);
}

int ialltoallv(const void* in, const int in_counts[], const int in_displacements[], MPI_Datatype in_type,
               void* out, const int out_counts[], const int out_displacements[], MPI_Datatype out_type,
               MPI_Comm comm, MPI_Request* request) {
  const Pairs pairs{{in, in_counts, in_displacements, in_type},
                    {out, out_counts, out_displacements, out_type},
                    in == MPI_IN_PLACE};
  NamedMade named = all_to_all_made(pairs, comm, Form::nonblocking);
  if (const std::optional<int> done = named.start_kept(request)) return *done;
  auto original = [&] {
    return DDL_NEXT(MPI_Ialltoallv)(in, in_counts, in_displacements, in_type, out, out_counts,
                                    out_displacements, out_type, comm, request);
  };
  return start_exchange(kAllToAll, pairs, 0, comm, request, original, &named);
}

int alltoallw(const void* in, const int in_counts[], const int in_displacements[],
              const MPI_Datatype in_types[], void* out, const int out_counts[], const int out_displacements[],
              const MPI_Datatype out_types[], MPI_Comm comm) {
  const Pairs pairs{{in, in_counts, in_displacements, MPI_DATATYPE_NULL, in_types},
                    {out, out_counts, out_displacements, MPI_DATATYPE_NULL, out_types},
                    in == MPI_IN_PLACE};
  return exchange(kAllToAllTypes, pairs, 0, comm, [&] {
    return DDL_NEXT(MPI_Alltoallw)(in, in_counts, in_displacements, in_types, out, out_counts,
                                   out_displacements, out_types, comm);
  });
}

int ialltoallw(const void* in, const int in_counts[], const int in_displacements[],
               const MPI_Datatype in_types[], void* out, const int out_counts[],
               const int out_displacements[], const MPI_Datatype out_types[], MPI_Comm comm,
               MPI_Request* request) {
  const Pairs pairs{{in, in_counts, in_displacements, MPI_DATATYPE_NULL, in_types},
                    {out, out_counts, out_displacements, MPI_DATATYPE_NULL, out_types},
                    in == MPI_IN_PLACE};
  return start_exchange(kAllToAllTypes, pairs, 0, comm, request, [&] {
    return DDL_NEXT(MPI_Ialltoallw)(in, in_counts, in_displacements, in_types, out, out_counts,
                                    out_displacements, out_types, comm, request);
  });
}

}  // namespace ddl::mpi
