/* A program that uses NCCL where there is none: without us the loader would end it at the first call. */
#include <stdio.h>

#include "tests/nccl/nccl_subset.h"

int main(void) {
  int version = 0;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclResult_t result = ncclGetVersion(&version);
  printf("version: %d %d\n", result, version);
  result = ncclGetUniqueId(&id);
  printf("id: %s\n", ncclGetErrorString(result));
  result = ncclCommInitRank(&comm, 1, id, 0);
  printf("comm: %s, last: %s\n", ncclGetErrorString(result), ncclGetLastError(comm));
  return 0;
}
