/* A small MPI program for the preload tests. `client CASE`: does what the case says, checks every result,
 * exits with 0 when all is right. Knows nothing of the engine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size, wrong;

static void check(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "client: rank %d: %s\n", rank, what);
  wrong = 1;
}

static void sums(MPI_Comm comm) {
  int n, me;
  MPI_Comm_size(comm, &n);
  MPI_Comm_rank(comm, &me);
  for (int count = 1; count < 100000; count = count * 7 + 1) {
    double* in = malloc(sizeof *in * count);
    double* out = malloc(sizeof *out * count);
    for (int i = 0; i < count; ++i) in[i] = me * 10 + i % 5;
    MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    for (int i = 0; i < count; ++i)
      if (out[i] != n * (n - 1) / 2 * 10 + n * (i % 5)) check(0, "a sum is wrong");
    free(in);
    free(out);
  }
}

static void waits_for_nothing(void) {
  MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  check(MPI_Wait(none, MPI_STATUS_IGNORE) == MPI_SUCCESS, "a wait for nothing fails");
  check(MPI_Waitall(2, none, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "a wait for two times nothing fails");
}

/* A child that only exits, one that runs another program, one that runs an MPI-free shell: none may disturb
 * the job. */
static void with_children(void) {
  int status;
  sums(MPI_COMM_WORLD);
  pid_t child = fork();
  if (child == 0) exit(0); /* runs exit handlers */
  waitpid(child, &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child did not exit cleanly");
  check(system("sh -c 'echo from the shell > /dev/null; ls / > /dev/null'") == 0, "a shell command failed");
  sums(MPI_COMM_WORLD);
}

/* Open MPI has handlers of its own; none may come from what the engine loads. */
static void with_signals(void) {
  for (int s = 1; s < 32; ++s) {
    struct sigaction now;
    Dl_info owner;
    if (sigaction(s, NULL, &now) != 0 || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) continue;
    if (!dladdr((void*)(size_t)now.sa_handler, &owner)) continue;
    check(!strstr(owner.dli_fname, "libuc") && !strstr(owner.dli_fname, "libddl"),
          "a signal handler was left behind");
  }
}

/* Different counts: the job must end with a message, not hang. */
static void mismatch(void) {
  static float data[4096];
  MPI_Allreduce(MPI_IN_PLACE, data, rank == 0 ? 1000 : 1001, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "sums";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  waits_for_nothing();
  if (strcmp(what, "children") == 0)
    with_children();
  else if (strcmp(what, "signals") == 0)
    with_signals();
  else if (strcmp(what, "mismatch") == 0)
    mismatch();
  else
    sums(MPI_COMM_WORLD);
  MPI_Finalize();
  return wrong;
}
