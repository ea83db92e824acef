/* How the ranks of a client run; each program says what one of them does. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/nccl/client.h"

enum { kMostThreads = 64 };

int processes(int size) {
  int bad = 0, status;
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever ends the program ends its ranks */
    one_rank(rank);
    if (rank == 0) print_tally();
    exit(wrong ? 1 : 0);
  }
  for (int rank = 0; rank < size; ++rank)
    if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) ++bad;
  return bad;
}

static void* rank_thread(void* rank) { return one_rank((int)(intptr_t)rank), NULL; }

void threads(int size) {
  pthread_t running[kMostThreads];
  for (int rank = 0; rank < size; ++rank)
    pthread_create(running + rank, NULL, rank_thread, (void*)(intptr_t)rank);
  for (int rank = 0; rank < size; ++rank) pthread_join(running[rank], NULL);
  print_tally();
}
