/* Pi as the area under 4 / (1 + x^2): every rank sums its strips, an all-reduce adds the sums. While that
 * goes on each rank does something else. Neither MPI nor NCCL. */
#include <ddl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void check(ddl_status status) {
  if (status == DDL_SUCCESS) return;
  fprintf(stderr, "pi: %s: %s\n", ddl_error_string(status), ddl_error_message());
  exit(1);
}

int main(void) {
  ddl_group* world;
  check(ddl_init(NULL, &world));
  const int rank = ddl_rank(world), ranks = ddl_size(world);

  const long strips = 10000000;
  double sum = 0, pi = 0;
  for (long i = rank; i < strips; i += ranks) {
    const double x = (i + 0.5) / strips;
    sum += 4 / (1 + x * x) / strips;
  }

  ddl_call call = DDL_CALL;
  call.in = &sum;
  call.out = &pi;
  call.count = 1;
  call.type = DDL_FLOAT64;
  ddl_request* request;
  check(ddl_start(&call, world, &request));
  const double exact = acos(-1);
  check(ddl_wait(&request));

  if (rank == 0) printf("%d ranks: pi is %.9f, off by %.0e\n", ranks, pi, fabs(pi - exact));
  check(ddl_finalize(world));
  return fabs(pi - exact) < 1e-9 ? 0 : 1;
}
