#include "items.hpp"

namespace calls {

const std::vector<Item>& items() {
  static const std::vector<Item> all{
      {"blocking", Group::kTogether, "MPI_Allreduce in a loop without barriers", measure_blocking},
      {"nonblocking", Group::kTogether, "MPI_Iallreduce and MPI_Wait, likewise", measure_nonblocking},
      {"zero", Group::kTogether, "both, of no elements", measure_zero},
      {"outstanding", Group::kTogether, "many MPI_Iallreduce, then MPI_Waitall", measure_outstanding},
      {"communicators", Group::kTogether, "making, using and freeing communicators", measure_communicators},
      {"first", Group::kAlone, "the first twenty calls of a process, of one size", measure_first},
      {"threads", Group::kAlone, "communicators made and freed by four threads", measure_threads},
      {"overlap-sleep", Group::kOverlap, "share of a call that is done while its caller sleeps",
       measure_sleep},
      {"overlap-compute", Group::kOverlap, "share that computing hides", measure_compute},
      {"processor", Group::kOverlap, "processor time of a call, all ranks together", measure_processor}};
  return all;
}

}  // namespace calls
