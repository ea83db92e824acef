/* What a program outside the tree does with ddl.h: `client CASE`. Exit code 0: as it should be. */
#include <ddl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong = 0;

#define EXPECT(what)                                                                                \
  do {                                                                                              \
    if (!(what)) {                                                                                  \
      fprintf(stderr, "%s:%d: %s is wrong (%s)\n", __FILE__, __LINE__, #what, ddl_error_message()); \
      wrong = 1;                                                                                    \
    }                                                                                               \
  } while (0)

/* The call fails so, with one line that holds `words`. */
#define REFUSED(call, status, words)                                                                      \
  do {                                                                                                    \
    ddl_status got = (call);                                                                              \
    if (got != (status) || !strstr(ddl_error_message(), words) || strchr(ddl_error_message(), '\n')) {    \
      fprintf(stderr, "%s:%d: %s gives %d, '%s'\n", __FILE__, __LINE__, #call, got, ddl_error_message()); \
      wrong = 1;                                                                                          \
    }                                                                                                     \
  } while (0)

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

static void all_kinds(ddl_group* group, uint64_t count) {
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
    EXPECT(ddl_group_free(pair) == DDL_SUCCESS && ddl_group_free(again) == DDL_SUCCESS);
  }
}

enum { kChunk = 1024, kChunks = 8, kGradient = kChunks * kChunk - 100, kMostRanks = 8 };

/* What all ranks together must get, which each of them works out for all. */
struct reference {
  float u[kMostRanks][kGradient], v[kMostRanks][kGradient], out[kGradient];
};

/* Whole numbers, and other chunks are the largest in each step. */
static float element(int r, int step, uint64_t i) {
  return (float)(((i / kChunk) * 5 + (uint64_t)step * 3) % kChunks * 2 + 1) * (float)(r + 1);
}

/* The gradient in that step, of which so many chunks travel. */
static void work_out(struct reference* all, int ranks, int step, float momentum, int sent) {
  double norms[kChunks] = {0};
  for (int r = 0; r < ranks; ++r)
    for (uint64_t i = 0; i < kGradient; ++i) {
      all->u[r][i] = momentum * all->u[r][i] + element(r, step, i);
      all->v[r][i] += all->u[r][i];
      norms[i / kChunk] += fabs((double)all->v[r][i]);
    }
  memset(all->out, 0, sizeof(all->out));
  for (int n = 0; n < sent; ++n) {
    int largest = 0;
    for (int c = 1; c < kChunks; ++c)
      if (norms[c] > norms[largest]) largest = c;
    norms[largest] = -1;
    for (uint64_t i = (uint64_t)largest * kChunk; i < kGradient && i < (uint64_t)(largest + 1) * kChunk; ++i)
      for (int r = 0; r < ranks; ++r) {
        all->out[i] += all->v[r][i];
        all->v[r][i] = 0;
        if (sent < kChunks) all->u[r][i] = 0;
      }
  }
}

/* Two gradients whose calls alternate, one in place and waited for late; the share falls to a quarter. */
static void some_gradients(ddl_group* group, int in_part) {
  static const int kSent[] = {8, 8, 4, 2, 2, 2, 2};
  static float in[2][kGradient], out[kGradient];
  static struct reference all[2];
  const int rank = ddl_rank(group), ranks = ddl_size(group);
  ddl_gradient* gradients[2];
  memset(all, 0, sizeof(all));
  for (int g = 0; g < 2; ++g) {
    ddl_gradient_options options = DDL_GRADIENT_OPTIONS;
    options.count = kGradient, options.share = 0.25, options.warm_up = 2;
    if (g == 1) options.momentum = 0.5;
    EXPECT(ddl_gradient_create(group, &options, &gradients[g]) == DDL_SUCCESS);
  }
  for (int step = 0; step < 7; ++step) {
    for (int g = 0; g < 2; ++g)
      for (uint64_t i = 0; i < kGradient; ++i) in[g][i] = element(rank, step, i);
    ddl_call call = DDL_CALL;
    call.count = kGradient;
    call.in = call.out = in[0], call.gradient = gradients[0];
    ddl_request* request;
    EXPECT(ddl_start(&call, group, &request) == DDL_SUCCESS);
    call.in = in[1], call.out = out, call.gradient = gradients[1];
    EXPECT(ddl_run(&call, group) == DDL_SUCCESS);
    int64_t one = 1, sum = 0; /* another call in between */
    EXPECT(ddl_all_reduce(&one, &sum, 1, DDL_INT64, DDL_SUM, group) == DDL_SUCCESS && sum == ranks);
    EXPECT(ddl_wait(&request) == DDL_SUCCESS);
    for (int g = 0; g < 2; ++g)
      work_out(&all[g], ranks, step, g == 1 ? 0.5F : 0, in_part ? kSent[step] : kChunks);
    EXPECT(memcmp(in[0], all[0].out, sizeof(out)) == 0);
    EXPECT(memcmp(out, all[1].out, sizeof(out)) == 0);
  }
  for (int g = 0; g < 2; ++g) EXPECT(ddl_gradient_free(gradients[g]) == DDL_SUCCESS);
}

static int gradients(int in_part) {
  ddl_group *world, *half;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  some_gradients(world, in_part);
  some_gradients(world, in_part);
  EXPECT(ddl_group_split(world, ddl_rank(world) / 2, 0, &half) == DDL_SUCCESS);
  some_gradients(half, 0); /* which is on one host */
  EXPECT(ddl_group_free(half) == DDL_SUCCESS);
  EXPECT(ddl_finalize(world) == DDL_SUCCESS);
  return wrong;
}

static int job(void) {
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

/* A job of one rank, which needs no launcher, and everything it must refuse. */
static int refusals(void) {
  ddl_group *world = NULL, *group;
  REFUSED(ddl_init(NULL, NULL), DDL_ERROR_ARGUMENT, "NULL");
  ddl_init_options options = DDL_INIT_OPTIONS;
  options.size = 0;
  REFUSED(ddl_init(&options, &world), DDL_ERROR_ARGUMENT, "size");
  options = DDL_INIT_OPTIONS;
  options.rank = -7;
  REFUSED(ddl_init(&options, &world), DDL_ERROR_ARGUMENT, "negative");
  options.rank = 5, options.ranks = 2, options.address = "127.0.0.1";
  REFUSED(ddl_init(&options, &world), DDL_ERROR_LAUNCH, "rank 5 of 2");
  struct {
    ddl_init_options known;
    int64_t newer;
  } future = {DDL_INIT_OPTIONS, 1};
  future.known.size = sizeof(future);
  REFUSED(ddl_init(&future.known, &world), DDL_ERROR_ARGUMENT, "does not know");
  EXPECT(!world);
  /* Built for a newer library, but without use of what is new there; and for an older one that knew less. */
  future.known.rank = 0, future.known.ranks = 1, future.newer = 0;
  EXPECT(ddl_init(&future.known, &world) == DDL_SUCCESS && ddl_size(world) == 1);
  EXPECT(ddl_finalize(world) == DDL_SUCCESS);
  options = DDL_INIT_OPTIONS;
  options.rank = 0, options.ranks = 1, options.timeout_s = -1; /* behind the fields of the older one */
  options.size = offsetof(ddl_init_options, port);
  EXPECT(ddl_init(&options, &world) == DDL_SUCCESS);

  double a[4] = {1, 2, 3, 4}, b[4];
  REFUSED(ddl_all_reduce(NULL, b, 4, DDL_FLOAT64, DDL_SUM, world), DDL_ERROR_ARGUMENT,
          "input buffer is NULL");
  REFUSED(ddl_all_reduce(a, NULL, 4, DDL_FLOAT64, DDL_SUM, world), DDL_ERROR_ARGUMENT,
          "output buffer is NULL");
  REFUSED(ddl_all_reduce(a, b, 4, (ddl_type)77, DDL_SUM, world), DDL_ERROR_ARGUMENT, "type 77");
  REFUSED(ddl_all_reduce(a, b, 4, DDL_FLOAT64, (ddl_op)-1, world), DDL_ERROR_ARGUMENT, "operation -1");
  REFUSED(ddl_all_reduce(a, b, 4, DDL_FLOAT64, DDL_BAND, world), DDL_ERROR_ARGUMENT, "band of float64");
  REFUSED(ddl_all_reduce(a, b, UINT64_MAX, DDL_FLOAT64, DDL_SUM, world), DDL_ERROR_ARGUMENT, "count");
  REFUSED(ddl_all_reduce(a, b, 4, DDL_FLOAT64, DDL_SUM, NULL), DDL_ERROR_ARGUMENT, "group is NULL");
  REFUSED(ddl_broadcast(a, b, 4, DDL_FLOAT64, 1, world), DDL_ERROR_ARGUMENT, "rank 1");
  REFUSED(ddl_send(a, 4, DDL_FLOAT64, 0, world), DDL_ERROR_ARGUMENT, "itself");
  REFUSED(ddl_run(NULL, world), DDL_ERROR_ARGUMENT, "NULL");
  ddl_call call = DDL_CALL;
  call.kind = (ddl_kind)99;
  REFUSED(ddl_run(&call, world), DDL_ERROR_ARGUMENT, "kind of collective 99");
  ddl_request* request;
  REFUSED(ddl_start(&call, world, &request), DDL_ERROR_ARGUMENT, "99");
  EXPECT(!request);
  REFUSED(ddl_start(&call, world, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_wait(NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_test(&request, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_wait_all(1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  EXPECT(ddl_wait(&request) == DDL_SUCCESS && ddl_wait_all(0, NULL) == DDL_SUCCESS);
  ddl_gradient *gradient, *of_group;
  ddl_gradient_options part = DDL_GRADIENT_OPTIONS;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_ARGUMENT, "no elements");
  EXPECT(!gradient);
  part.count = 4;
  REFUSED(ddl_gradient_create(world, &part, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_gradient_create(world, NULL, &gradient), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_gradient_create(NULL, &part, &gradient), DDL_ERROR_ARGUMENT, "group is NULL");
  part.share = 0;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_ARGUMENT, "share");
  part.share = NAN;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_ARGUMENT, "share");
  part.share = 0.5, part.momentum = 1;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_ARGUMENT, "momentum");
  part.momentum = 0, part.type = DDL_INT32;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_ARGUMENT, "type");
  part.type = DDL_FLOAT64;
  EXPECT(ddl_gradient_create(world, &part, &gradient) == DDL_SUCCESS);
  EXPECT(ddl_group_split(world, 0, 0, &group) == DDL_SUCCESS);
  EXPECT(ddl_gradient_create(group, &part, &of_group) == DDL_SUCCESS);
  call = DDL_CALL;
  call.in = a, call.out = b, call.count = 4, call.type = DDL_FLOAT64, call.gradient = of_group;
  REFUSED(ddl_run(&call, world), DDL_ERROR_ARGUMENT, "another group");
  call.gradient = gradient, call.op = DDL_MAX;
  REFUSED(ddl_run(&call, world), DDL_ERROR_ARGUMENT, "only a sum");
  call.op = DDL_SUM, call.count = 3;
  REFUSED(ddl_start(&call, world, &request), DDL_ERROR_ARGUMENT, "4 elements");
  EXPECT(ddl_gradient_free(gradient) == DDL_SUCCESS && ddl_gradient_free(NULL) == DDL_SUCCESS);
  const int32_t twice[] = {0, 0}, far[] = {3};
  REFUSED(ddl_group_create(world, twice, 2, &group), DDL_ERROR_ARGUMENT, "twice");
  REFUSED(ddl_group_create(world, far, 1, &group), DDL_ERROR_ARGUMENT, "rank 3");
  REFUSED(ddl_group_create(world, NULL, 1, &group), DDL_ERROR_ARGUMENT, "members");
  REFUSED(ddl_group_create(world, far, 1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_group_split(world, 0, 0, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_group_free(world), DDL_ERROR_ARGUMENT, "all ranks");
  REFUSED(ddl_free((void*)1, 1), DDL_ERROR_ARGUMENT, "ddl_allocate");
  REFUSED(ddl_allocate(1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  void* memory;
  REFUSED(ddl_allocate(SIZE_MAX / 2, &memory), DDL_ERROR_SYSTEM, "memory");
  EXPECT(ddl_rank(NULL) == -1 && ddl_size(NULL) == -1 && ddl_group_free(NULL) == DDL_SUCCESS);
  EXPECT(strcmp(ddl_error_string((ddl_status)55), "unknown status") == 0);

  /* None of that has harmed the job. */
  EXPECT(ddl_all_reduce(a, b, 4, DDL_FLOAT64, DDL_SUM, world) == DDL_SUCCESS && memcmp(a, b, sizeof(a)) == 0);
  all_kinds(world, 1000);
  EXPECT(ddl_group_split(world, 3, 0, &group) == DDL_SUCCESS);
  EXPECT(ddl_finalize(world) == DDL_SUCCESS);
  REFUSED(ddl_barrier(group), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_start(&call, group, &request), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_gradient_create(group, &part, &gradient), DDL_ERROR_STATE, "finalized");
  EXPECT(ddl_gradient_free(of_group) == DDL_SUCCESS);
  return wrong;
}

/* The ranks do not make the same call: all fail, none hangs. */
static int mismatch(void) {
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
static int dead_peer(void) {
  ddl_group* world;
  if (ddl_init(NULL, &world) != DDL_SUCCESS) return 2;
  if (ddl_barrier(world) != DDL_SUCCESS) return 3;
  if (ddl_rank(world) == 1) _Exit(0);
  REFUSED(ddl_barrier(world), DDL_ERROR_JOB, "rank 1");
  EXPECT(ddl_finalize(world) == DDL_ERROR_JOB);
  return wrong;
}

/* A call is under way when the job ends. */
static int lost_request(void) {
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

/* Prints why it could not join. */
static int only_init(void) {
  ddl_group* world;
  ddl_status status = ddl_init(NULL, &world);
  if (status == DDL_SUCCESS) return ddl_finalize(world) == DDL_SUCCESS ? 0 : 1;
  printf("%d %s\n", status, ddl_error_message());
  return 10 + status;
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "job";
  if (!strcmp(name, "job")) return job();
  if (!strcmp(name, "gradients")) return gradients(argc > 2);
  if (!strcmp(name, "refusals")) return refusals();
  if (!strcmp(name, "mismatch")) return mismatch();
  if (!strcmp(name, "dead_peer")) return dead_peer();
  if (!strcmp(name, "lost_request")) return lost_request();
  if (!strcmp(name, "init")) return only_init();
  return 99;
}
