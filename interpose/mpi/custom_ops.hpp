// Operations of the program's own that are one of ours: 16-bit sums and the like. Thread safety: all
// functions.
#pragma once

#include <mpi.h>

#include <optional>

#include "core/reduce/recognise.hpp"

namespace ddl::mpi {

/// What an operation of the program's own on two bytes in a row is; nothing where it is none that we know, or
/// the type another one. The operation is called on a few chosen elements when it is first seen.
std::optional<Reduction> custom_reduction(MPI_Datatype type, MPI_Op op);
int op_free(MPI_Op* op);

}  // namespace ddl::mpi
