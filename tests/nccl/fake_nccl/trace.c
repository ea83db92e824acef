/* FAKE_NCCL_TRACE. A line: communicator (its name; that of a split: parent.number.color) rank size verb count
 * type; or communicator rank size split maxCTAs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/nccl/fake_nccl/fake.h"

static void add(const char* line, int length) {
  const char* name = getenv("FAKE_NCCL_TRACE");
  int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0 || write(file, line, (size_t)length) != length) abort();
  close(file);
}

void fake_trace_call(const struct call* call) {
  static const char* const verbs[] = {"all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
                                      "all_to_all", "gather", "scatter",   "send",       "recv"};
  char line[160];
  if (!getenv("FAKE_NCCL_TRACE")) return;
  add(line, snprintf(line, sizeof line, "%s %d %d %s %zu %d\n", call->comm->name, call->comm->rank,
                     call->comm->size, verbs[call->verb], call->count, (int)call->type));
}

void fake_trace_split(ncclComm_t comm, const ncclConfig_t* config) {
  char line[160];
  if (!getenv("FAKE_NCCL_TRACE")) return;
  add(line, snprintf(line, sizeof line, "%s %d %d split %d\n", comm->name, comm->rank, comm->size,
                     config ? config->maxCTAs : 0));
}
