// What the engine makes of MPI's datatypes and operations: of C's, and of Fortran's as large as in the
// compiler that the MPI library was built for. Of types that programs make, see made_types.hpp.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "core/reduce/recognise.hpp"

namespace ddl::mpi {

/// Whether it is one of the predefined types that are listed here: its elements lie without gaps.
bool is_known(MPI_Datatype type);
/// Bytes of an element of these; 0 of another type.
std::uint64_t size_of_known(MPI_Datatype type);

/// How the engine does this operation on this type: an element of `type` is `parts` elements of the
/// reduction's. Returns null, or why it cannot; then the others are not set.
const char* find_reduction(MPI_Datatype type, MPI_Op op, Reduction& reduction, std::uint64_t& parts);

}  // namespace ddl::mpi
