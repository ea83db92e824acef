// Where the collectives with a count for every rank go, and their buffers: see route.hpp.
//
// Of some all ranks know all counts (MPI_Allgatherv, MPI_Reduce_scatter). Of the others each two ranks know
// what they have for each other, so that nothing but the kind, the root and the communicator may choose the
// route; to the engine all of these are one pairwise all-to-all.
#pragma once

#include "interpose/mpi/route.hpp"

namespace ddl::mpi {

RoutedCall route_all_gather_v(const Side& in, const BlockSide& out, MPI_Comm comm);
bool adapt_all_gather_v(RoutedCall& route, const Side& in, const BlockSide& out, CallBuffers& buffers);

/// As route_reduction(), with blocks of so many elements.
RoutedCall route_reduce_scatter(const void* in, void* out, const int counts[], MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm);

/// What this rank has for each other one, and they for it.
struct Pairs {
  BlockSide in, out;
  bool in_place = false;  // what it has for the others lies where theirs is to go
};
/// Of MPI_Gatherv, and of MPI_Scatterv: `many` counts on the root alone. Valid until the next call of this
/// thread.
Pairs pairs_of_gather(const Side& one, const BlockSide& many, int root, MPI_Comm comm);
Pairs pairs_of_scatter(const BlockSide& many, const Side& one, int root, MPI_Comm comm);

/// `root`: 0 where there is none.
RoutedCall route_pairs(Collective collective, const Pairs& pairs, int root, MPI_Comm comm);
bool adapt_pairs(RoutedCall& route, const Pairs& pairs, CallBuffers& buffers);

}  // namespace ddl::mpi
