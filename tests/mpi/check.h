/* One verified all-reduce, blocking or not, and the count of cases and failures of this rank. */
#ifndef DDL_TESTS_MPI_CHECK_H
#define DDL_TESTS_MPI_CHECK_H

#include <time.h>

#include "values.h"

struct group { /* a communicator under test; comm may be MPI_COMM_NULL on ranks outside it */
  const char* name;
  MPI_Comm comm;
  struct members of;
  int me;
};

enum placement { OUT_OF_PLACE, IN_PLACE };

struct call { /* one all-reduce, its buffers and where they start */
  const struct group* group;
  const struct type_case* type;
  enum op_kind op;
  size_t count;
  enum placement placement;
  size_t offset; /* of the buffers from an aligned address, in bytes */
  uint64_t seed;
  char *send, *recv;             /* what MPI gets; send is null in place */
  char *send_block, *recv_block; /* what was allocated, with guards */
  MPI_Request request;
};

extern long cases_done, failures;

struct group make_group(const char* name, MPI_Comm comm);
void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

struct call begin_call(const struct group* group, const struct type_case* type, enum op_kind op, size_t count,
                       enum placement placement, size_t offset);
void start_blocking(struct call* call);
void start_nonblocking(struct call* call);
/* Verifies result, guards and send buffer, compares float bits between ranks (a collective), frees the
 * buffers. */
void finish_call(struct call* call);

double seconds_by(clockid_t clock);

/* Prints the line "check: N cases M failures" on rank 0; the program's exit code. */
int report(void);

#endif
