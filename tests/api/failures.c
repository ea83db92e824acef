/* Jobs that fail, or do not come about. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client.h"

/* The ranks do not make the same call: all fail, none hangs. */
int mismatch(void) {
  ddl_group* world;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  static float data[2000];
  ddl_status status = DDL_SUCCESS;
  for (int i = 0; i < 3 && status == DDL_SUCCESS; ++i)
    status = ddl_all_reduce(data, data, ddl_rank(world) == 0 ? 1000 : 2000, DDL_FLOAT32, DDL_SUM, world);
  EXPECT(status == DDL_ERROR_JOB);
  REFUSED(ddl_barrier(world), DDL_ERROR_JOB, "");
  EXPECT(ddl_finalize(world) == DDL_ERROR_JOB);
  return wrong;
}

/* One rank ends in the middle: the others are told. */
int dead_peer(void) {
  ddl_group* world;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  if (ddl_barrier(world) != DDL_SUCCESS) return 3;
  if (ddl_rank(world) == 1) _Exit(0);
  REFUSED(ddl_barrier(world), DDL_ERROR_JOB, "rank 1");
  EXPECT(ddl_finalize(world) == DDL_ERROR_JOB);
  return wrong;
}

/* A call is under way when the job ends. */
int lost_request(void) {
  ddl_group* world;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  static float data[1000];
  ddl_call call = DDL_CALL;
  call.kind = DDL_RECEIVE, call.out = data, call.count = 1000, call.root = 1 - ddl_rank(world);
  ddl_request* request;
  EXPECT(ddl_start(&call, world, &request) == DDL_SUCCESS && request);
  EXPECT(ddl_finalize(world) == DDL_SUCCESS);
  REFUSED(ddl_wait(&request), DDL_ERROR_STATE, "finalized");
  EXPECT(!request);
  return wrong;
}

/* The ranks die as soon as the report that is kept meanwhile shows a call; or never comes to show one. */
int killed(void) {
  ddl_group* world;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  for (int i = 0; i < 1000; ++i) {
    float told =
        ddl_rank(world) == 0 && system("grep -q '\"calls\": [1-9]' \"$DDL_REPORT\" 2>/dev/null") == 0;
    EXPECT(ddl_all_reduce(&told, &told, 1, DDL_FLOAT32, DDL_SUM, world) == DDL_SUCCESS);
    if (told > 0) raise(SIGKILL);
    usleep(10000);
  }
  return 3;
}

/* A rank has no memory left for a call that the others make: the job fails on all of them. */
int no_memory(void) {
  ddl_group *world, *group;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  EXPECT(ddl_barrier(world) == DDL_SUCCESS);
  const struct rlimit none = {1 << 20, 1 << 20};
  const int is_poor = ddl_rank(world) == 1;
  if (is_poor) EXPECT(setrlimit(RLIMIT_AS, &none) == 0);
  ddl_status status = DDL_SUCCESS;
  while (status == DDL_SUCCESS) status = ddl_group_split(world, 0, 0, &group);
  EXPECT(status == DDL_ERROR_JOB && strstr(ddl_error_message(), is_poor ? "no memory" : "rank 1"));
  EXPECT(ddl_barrier(world) == DDL_ERROR_JOB);
  EXPECT(ddl_finalize(world) == DDL_ERROR_JOB);
  return wrong;
}

/* Prints why it could not join. */
int only_init(void) {
  ddl_group* world;
  ddl_status status = ddl_init(NULL, &world);
  if (status == DDL_SUCCESS) return ddl_finalize(world) == DDL_SUCCESS ? 0 : 1;
  printf("%d %s\n", status, ddl_error_message());
  return 10 + status;
}
