/* What the matrices of collectives share: four communicators, derived types of ints, and the data of a rank.
 */
#ifndef DDL_TESTS_MPI_MATRIX_H
#define DDL_TESTS_MPI_MATRIX_H

#include "check.h"

struct comm_case {
  const char* name;
  MPI_Comm comm;
  int size, me;
};

enum { kUntouched = 0x5a5a5a5a };

extern MPI_Datatype pairs; /* two ints, dense */
extern MPI_Datatype gaps;  /* an int, followed by one that nobody may touch */

/* Element i of what rank `from` has in a block, or for a rank. */
int value(int from, int block, int i, int seed);

/* Of a call `w` that is made blocking or not. */
#define EITHER(w, blocking_call, nonblocking_call) ((w)->nonblocking ? (nonblocking_call) : (blocking_call))

/* The whole program: calls `each` for the world, the world reversed, every other rank and the rank alone;
 * prints the line of report(), whose result is the program's exit code. */
int run_matrix(int argc, char** argv, void (*each)(const struct comm_case* on));

#endif
