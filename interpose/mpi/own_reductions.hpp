// Reductions that the engine has no kernels for: MPI's own of pairs, of complex numbers and of long double,
// and the program's. The engine moves the elements, MPI_Reduce_local combines them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "core/api/call_api.h"
#include "core/reduce/types.hpp"

namespace ddl::mpi {

/// How large an element is, where MPI_Reduce_local may combine two: the operation commutes, the type is one
/// that MPI names or some of these in a row, of 1, 2, 4, 8 or 16 bytes. The same on all ranks.
std::optional<DType> layout_of_own(MPI_Datatype type, MPI_Op op);
/// Copies pairs, without what lies between and behind their values (MPI_DOUBLE_INT in 16 bytes): it is the
/// program's own.
bool has_gaps(MPI_Datatype pair);
void copy_pairs(void* to, const void* from, std::uint64_t count, MPI_Datatype pair);
/// Whether the program cannot free it, whose function is to get this very handle.
bool may_outlive_call(MPI_Datatype type);

/// One call with such a reduction, from before it starts until it is done. Where the program may free the
/// operation meanwhile that lives on.
class OwnReductionCall {
 public:
  enum class Meanwhile { may_be_freed, stays };
  OwnReductionCall(MPI_Datatype type, MPI_Op op, Meanwhile meanwhile);
  ~OwnReductionCall();
  OwnReductionCall(const OwnReductionCall&) = delete;
  OwnReductionCall& operator=(const OwnReductionCall&) = delete;
  /// Of ddl_collective_call, with this as context.
  static void combine(void* self, const void* in, void* inout, uint64_t count);
  /// Where the program's function has thrown: throws that, once the engine is done with the call.
  void throw_on();
  bool has_thrown() const { return thrown_ != nullptr; }

 private:
  const MPI_Datatype type_;
  const MPI_Op op_;
  const bool holds_op_;
  std::exception_ptr thrown_;
};

/// Frees an operation of the program's, or has the last call that may need it do so.
int free_operation(MPI_Op* op);
/// How many have been freed that had that handle, which may mean another one since, or some others.
unsigned operations_freed(const void* handle);

}  // namespace ddl::mpi
