// The table that the shim asks for, and nothing else.
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {
ddl_mpi_table originals;
}

State& state() {
  static State* the_state = new State;  // outlives exit handlers of the program
  return *the_state;
}

const ddl_mpi_table& next() { return originals; }

namespace {

template <class Function>
ddl_function as_word(Function* function) {
  return reinterpret_cast<ddl_function>(function);
}

void fill(ddl_mpi_table& front) {
  front.MPI_Init = as_word(init);
  front.MPI_Init_thread = as_word(init_thread);
  front.MPI_Finalize = as_word(finalize);
  front.MPI_Allreduce = as_word(allreduce);
  front.MPI_Iallreduce = as_word(iallreduce);
  front.MPI_Bcast = as_word(bcast);
  front.MPI_Comm_dup = as_word(comm_dup);
  front.MPI_Comm_dup_with_info = as_word(comm_dup_with_info);
  front.MPI_Comm_create = as_word(comm_create);
  front.MPI_Comm_create_group = as_word(comm_create_group);
  front.MPI_Comm_split = as_word(comm_split);
  front.MPI_Comm_split_type = as_word(comm_split_type);
  front.MPI_Cart_create = as_word(cart_create);
  front.MPI_Cart_sub = as_word(cart_sub);
  front.MPI_Graph_create = as_word(graph_create);
  front.MPI_Dist_graph_create = as_word(dist_graph_create);
  front.MPI_Dist_graph_create_adjacent = as_word(dist_graph_create_adjacent);
  front.MPI_Intercomm_merge = as_word(intercomm_merge);
}

}  // namespace
}  // namespace ddl::mpi

extern "C" __attribute__((visibility("default"))) int ddl_mpi_front(uint32_t version,
                                                                    const ddl_mpi_table* next,
                                                                    ddl_mpi_table* front) {
  if (version != DDL_FRONT_VERSION) return 0;
  ddl::mpi::originals = *next;
  ddl::mpi::fill(*front);
  return 1;
}
