// Operations that programs make for types that MPI does not have. Horovod's float16 is two bytes in a row and
// four operations of its own; which they are is found out at first use, on chosen elements. Others are left
// alone: a function of the program's may have effects beside its result.
#include "interpose/mpi/custom_ops.hpp"

#include <algorithm>
#include <mutex>

#include "core/reduce/recognise.hpp"
#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/own_reductions.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

// What MPI_Type_contiguous(2, MPI_BYTE), or of another type of one byte, consists of; of other types null.
MPI_Datatype byte_of_two(MPI_Datatype type) {
  const TypeFacts* facts = facts_of(type);
  return facts && facts->element && facts->elements == 2 && facts->size == 2 ? facts->element : nullptr;
}

// A function may ask which type it is called for.
struct Known {
  MPI_Op op;
  MPI_Datatype byte;
  std::optional<Reduction> reduction;
};
std::mutex ops_mutex;
std::vector<Known>& known() {
  static auto& all = *new std::vector<Known>;  // outlives exit handlers of the program
  return all;
}

}  // namespace

std::optional<Reduction> custom_reduction(MPI_Datatype type, MPI_Op op) {
  if (op == MPI_OP_NULL || is_known(type)) return std::nullopt;
  const MPI_Datatype byte = byte_of_two(type);
  if (!byte) return std::nullopt;
  std::lock_guard lock(ops_mutex);
  for (const Known& one : known())
    if (one.op == op && one.byte == byte) return one.reduction;
  auto apply = [&](void* out, const void* a, const void* b, std::size_t elements) {
    std::copy_n(static_cast<const std::byte*>(b), 2 * elements, static_cast<std::byte*>(out));
    PMPI_Reduce_local(a, out, static_cast<int>(elements), type, op);
  };
  known().push_back({op, byte, recognise(apply, 2)});
  return known().back().reduction;
}

int op_free(MPI_Op* op) {
  if (op) {
    std::lock_guard lock(ops_mutex);
    std::erase_if(known(), [&](const Known& one) { return one.op == *op; });  // the next may have its handle
  }
  return op ? free_operation(op) : DDL_NEXT(MPI_Op_free)(op);
}

}  // namespace ddl::mpi
