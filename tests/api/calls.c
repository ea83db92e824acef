/* Calls of all kinds, blocking and not, on all ranks and on groups of some. */
#include "client.h"

enum { kMost = 70001 };

/* Element i of what rank r brings for block b. */
static int64_t value(int r, int b, uint64_t i) {
  return (int64_t)(1000003 * r + 101 * b) + (int64_t)(i % 1009);
}

static void fill(int64_t* to, int rank, int blocks, uint64_t count) {
  for (int b = 0; b < blocks; ++b)
    for (uint64_t i = 0; i < count; ++i) to[(uint64_t)b * count + i] = value(rank, b, i);
}

static int64_t sum_of(int ranks, int b, uint64_t i) {
  int64_t sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, b, i);
  return sum;
}

void all_kinds(ddl_group* group, uint64_t count) {
  const int rank = ddl_rank(group), ranks = ddl_size(group);
  const size_t bytes = (size_t)ranks * count * sizeof(int64_t) + 8;
  int64_t *in = malloc(bytes), *out = malloc(bytes);
  fill(in, rank, ranks, count);

  EXPECT(ddl_all_reduce(in, out, count, DDL_INT64, DDL_SUM, group) == DDL_SUCCESS);
  for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == sum_of(ranks, 0, i));

  for (int root = 0; root < ranks; ++root) {
    memset(out, 0, bytes);
    EXPECT(ddl_broadcast(rank == root ? in : NULL, out, count, DDL_INT64, root, group) == DDL_SUCCESS);
    for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == value(root, 0, i));
    EXPECT(ddl_reduce(in, rank == root ? out : NULL, count, DDL_INT64, DDL_SUM, root, group) == DDL_SUCCESS);
    if (rank == root)
      for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == sum_of(ranks, 0, i));
    EXPECT(ddl_gather(in, rank == root ? out : NULL, count, DDL_INT64, root, group) == DDL_SUCCESS);
    if (rank == root)
      for (int r = 0; r < ranks; ++r)
        for (uint64_t i = 0; i < count; ++i) EXPECT(out[(uint64_t)r * count + i] == value(r, 0, i));
    EXPECT(ddl_scatter(rank == root ? in : NULL, out, count, DDL_INT64, root, group) == DDL_SUCCESS);
    for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == value(root, rank, i));
  }

  EXPECT(ddl_all_gather(in, out, count, DDL_INT64, group) == DDL_SUCCESS);
  for (int r = 0; r < ranks; ++r)
    for (uint64_t i = 0; i < count; ++i) EXPECT(out[(uint64_t)r * count + i] == value(r, 0, i));
  EXPECT(ddl_reduce_scatter(in, out, count, DDL_INT64, DDL_SUM, group) == DDL_SUCCESS);
  for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == sum_of(ranks, rank, i));
  EXPECT(ddl_all_to_all(in, out, count, DDL_INT64, group) == DDL_SUCCESS);
  for (int r = 0; r < ranks; ++r)
    for (uint64_t i = 0; i < count; ++i) EXPECT(out[(uint64_t)r * count + i] == value(r, rank, i));

  if (ranks > 1) { /* around a ring, even ranks send first */
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    ddl_call send = DDL_CALL, receive = DDL_CALL;
    send.kind = DDL_SEND, send.in = in, send.count = count, send.type = DDL_INT64, send.root = next;
    receive.kind = DDL_RECEIVE, receive.out = out, receive.count = count, receive.type = DDL_INT64;
    receive.root = before;
    ddl_request* both[2];
    EXPECT(ddl_start(&receive, group, &both[0]) == DDL_SUCCESS);
    EXPECT(ddl_start(&send, group, &both[1]) == DDL_SUCCESS);
    EXPECT(ddl_wait_all(2, both) == DDL_SUCCESS && !both[0] && !both[1]);
    for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == value(before, 0, i));
    if (rank == 0) EXPECT(ddl_send(in, count, DDL_INT64, 1, group) == DDL_SUCCESS);
    if (rank == 1) {
      EXPECT(ddl_receive(out, count, DDL_INT64, 0, group) == DDL_SUCCESS);
      for (uint64_t i = 0; i < count; ++i) EXPECT(out[i] == value(0, 0, i));
    }
  }
  EXPECT(ddl_barrier(group) == DDL_SUCCESS);
  free(in);
  free(out);
}

/* Many under way, waited for in another order, and by test. */
static void nonblocking(ddl_group* group) {
  enum { kCalls = 40 };
  const int rank = ddl_rank(group), ranks = ddl_size(group);
  ddl_request* requests[kCalls];
  float* data[kCalls];
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t count = i % 4 == 0 ? kMost : 10;
    EXPECT(ddl_allocate(count * sizeof(float), (void**)&data[i]) == DDL_SUCCESS);
    for (uint64_t j = 0; j < count; ++j) data[i][j] = (float)(rank + i);
    ddl_call call = DDL_CALL;
    call.in = call.out = data[i];
    call.count = count;
    EXPECT(ddl_start(&call, group, &requests[i]) == DDL_SUCCESS);
  }
  for (int i = kCalls - 1; i >= 0; --i) {
    int done = 0;
    if (i % 2 == 0)
      while (!done) EXPECT(ddl_test(&requests[i], &done) == DDL_SUCCESS);
    else
      EXPECT(ddl_wait(&requests[i]) == DDL_SUCCESS);
    EXPECT(!requests[i]);
    const uint64_t count = i % 4 == 0 ? kMost : 10;
    for (uint64_t j = 0; j < count; ++j) EXPECT(data[i][j] == (float)(ranks * (ranks - 1) / 2 + ranks * i));
    EXPECT(ddl_free(data[i], count * sizeof(float)) == DDL_SUCCESS);
  }
}

static void groups(ddl_group* world) {
  const int rank = ddl_rank(world), ranks = ddl_size(world);
  for (int round = 0; round < 3; ++round) {
    ddl_group* half;
    EXPECT(ddl_group_split(world, rank % 2, -rank, &half) == DDL_SUCCESS);
    EXPECT(ddl_size(half) == (ranks + 1 - rank % 2) / 2);
    EXPECT(ddl_rank(half) == ddl_size(half) - 1 - rank / 2);
    int32_t one = 1, all = 0;
    EXPECT(ddl_all_reduce(&one, &all, 1, DDL_INT32, DDL_SUM, half) == DDL_SUCCESS && all == ddl_size(half));
    all_kinds(half, 100);
    EXPECT(ddl_group_free(half) == DDL_SUCCESS);
    ddl_group* none;
    EXPECT(ddl_group_split(world, -1, 0, &none) == DDL_SUCCESS && !none);
  }
  if (ranks > 1 && rank < 2) { /* the others do not even know */
    const int32_t members[] = {1, 0};
    ddl_group *pair, *again;
    EXPECT(ddl_group_create(world, members, 2, &pair) == DDL_SUCCESS);
    EXPECT(ddl_group_create(world, members, 2, &again) == DDL_SUCCESS);
    EXPECT(ddl_rank(pair) == 1 - rank);
    all_kinds(pair, 1000);
    all_kinds(again, 10);
    int32_t mine = rank, got = -1;
    ddl_call call = DDL_CALL;
    call.kind = DDL_RECEIVE, call.out = &got, call.count = 1, call.type = DDL_INT32, call.root = rank;
    ddl_request* request;
    EXPECT(ddl_start(&call, pair, &request) == DDL_SUCCESS && request);
    REFUSED(ddl_group_free(pair), DDL_ERROR_ARGUMENT, "not done");
    EXPECT(ddl_send(&mine, 1, DDL_INT32, rank, pair) == DDL_SUCCESS);
    EXPECT(ddl_wait(&request) == DDL_SUCCESS && got == 1 - rank);
    EXPECT(ddl_group_free(pair) == DDL_SUCCESS && ddl_group_free(again) == DDL_SUCCESS);
  }
}

int job(void) {
  for (int round = 0; round < 2; ++round) {
    ddl_group* world = NULL;
    if (ddl_init(NULL, &world) != DDL_SUCCESS) {
      fprintf(stderr, "client: %s\n", ddl_error_message());
      return 2;
    }
    for (uint64_t count = 0; count <= kMost; count = count * 40 + 1) all_kinds(world, count);
    nonblocking(world);
    groups(world);
    EXPECT(ddl_finalize(world) == DDL_SUCCESS);
    REFUSED(ddl_barrier(world), DDL_ERROR_STATE, "finalized");
    REFUSED(ddl_finalize(world), DDL_ERROR_STATE, "ddl_init");
  }
  return wrong;
}
