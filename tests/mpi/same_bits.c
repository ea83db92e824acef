/* Prints one hash of the results of float all-reduces over many sizes, blocking and not. The data needs
 * rounding in every sum, so that another order of summation shows. Two runs are to print the same line. An
 * ordinary MPI program. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static const size_t kCounts[] = {1, 2, 5, 33, 1000, 4099, 65537, 300007, 1 << 20};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const struct group world = make_group("MPI_COMM_WORLD", MPI_COMM_WORLD);
  uint64_t hash = 0;
  for (size_t i = 0; i < 2 * sizeof kCounts / sizeof kCounts[0]; ++i) {
    const size_t count = kCounts[i / 2];
    struct call call = begin_call(&world, &all_types()[i % 2], OP_SUM, count, OUT_OF_PLACE, 0);
    if (i % 3 == 0) {
      start_nonblocking(&call);
      MPI_Wait(&call.request, MPI_STATUS_IGNORE);
    } else {
      start_blocking(&call);
    }
    hash = mix(hash, hash_bytes(call.recv, count * call.type->bytes), i);
    finish_call(&call); /* verifies, and compares the bits between the ranks */
  }
  if (world.me == 0) printf("hash: %016llx\n", (unsigned long long)hash);
  const int code = report();
  MPI_Finalize();
  return code;
}
