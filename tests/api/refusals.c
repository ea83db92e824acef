/* A job of one rank, which needs no launcher, and everything it must refuse. */
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

/* The job of one rank. */
static ddl_group* refused_inits(void) {
  ddl_group* world = NULL;
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
  return world;
}

static void refused_calls(ddl_group* world) {
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
  REFUSED(ddl_start(NULL, world, &request), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_wait(NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_test(&request, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_wait_all(1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  EXPECT(ddl_wait(&request) == DDL_SUCCESS && ddl_wait_all(0, NULL) == DDL_SUCCESS);
  call = DDL_CALL, request = (ddl_request*)1;
  EXPECT(ddl_start(&call, world, &request) == DDL_SUCCESS && !request); /* done at once: no elements */
  int done = 0;
  EXPECT(ddl_test(&request, &done) == DDL_SUCCESS && done == 1);
}

static void refused_gradients(ddl_group* world) {
  double a[4] = {1, 2, 3, 4}, b[4];
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
  ddl_group* group;
  EXPECT(ddl_group_split(world, 0, 0, &group) == DDL_SUCCESS);
  EXPECT(ddl_gradient_create(group, &part, &of_group) == DDL_SUCCESS);
  ddl_call call = DDL_CALL;
  ddl_request* request;
  call.in = a, call.out = b, call.count = 4, call.type = DDL_FLOAT64, call.gradient = of_group;
  REFUSED(ddl_run(&call, world), DDL_ERROR_ARGUMENT, "another group");
  call.gradient = gradient, call.op = DDL_MAX;
  REFUSED(ddl_run(&call, world), DDL_ERROR_ARGUMENT, "only a sum");
  call.op = DDL_SUM, call.count = 3;
  REFUSED(ddl_start(&call, world, &request), DDL_ERROR_ARGUMENT, "4 elements");
  EXPECT(ddl_gradient_free(gradient) == DDL_SUCCESS && ddl_gradient_free(NULL) == DDL_SUCCESS);
  /* Of a group that was freed, whose memory may serve the next one. */
  call = DDL_CALL;
  call.in = a, call.out = b, call.count = 4, call.type = DDL_FLOAT64, call.gradient = of_group;
  for (int round = 0; round < 20; ++round) {
    EXPECT(ddl_group_free(group) == DDL_SUCCESS);
    EXPECT(ddl_group_split(world, 0, 0, &group) == DDL_SUCCESS);
    REFUSED(ddl_run(&call, group), DDL_ERROR_ARGUMENT, "was freed");
  }
  EXPECT(ddl_gradient_free(of_group) == DDL_SUCCESS && ddl_group_free(group) == DDL_SUCCESS);
  struct rlimit before, most;
  EXPECT(getrlimit(RLIMIT_AS, &before) == 0);
  most = before, most.rlim_cur = (rlim_t)1 << 40;
  EXPECT(setrlimit(RLIMIT_AS, &most) == 0);
  part.count = (uint64_t)1 << 40;
  REFUSED(ddl_gradient_create(world, &part, &gradient), DDL_ERROR_SYSTEM, "1099511627776 elements");
  EXPECT(!gradient && setrlimit(RLIMIT_AS, &before) == 0);
}

static void refused_groups(ddl_group* world) {
  ddl_group* group;
  const int32_t twice[] = {0, 0}, far[] = {3};
  REFUSED(ddl_group_create(world, twice, 2, &group), DDL_ERROR_ARGUMENT, "twice");
  REFUSED(ddl_group_create(world, far, 1, &group), DDL_ERROR_ARGUMENT, "rank 3");
  REFUSED(ddl_group_create(world, NULL, 1, &group), DDL_ERROR_ARGUMENT, "members");
  REFUSED(ddl_group_create(world, far, 1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_group_split(world, 0, 0, NULL), DDL_ERROR_ARGUMENT, "NULL");
  REFUSED(ddl_group_free(world), DDL_ERROR_ARGUMENT, "all ranks");
}

static void refused_memory(void) {
  REFUSED(ddl_free((void*)1, 1), DDL_ERROR_ARGUMENT, "ddl_allocate");
  REFUSED(ddl_allocate(1, NULL), DDL_ERROR_ARGUMENT, "NULL");
  void* memory = (void*)1;
  REFUSED(ddl_allocate(SIZE_MAX / 2, &memory), DDL_ERROR_SYSTEM, "memory");
  EXPECT(!memory);
  memory = (void*)1;
  EXPECT(ddl_allocate(0, &memory) == DDL_SUCCESS && !memory && ddl_free(memory, 0) == DDL_SUCCESS);
  const size_t bytes = (size_t)1 << 20;
  EXPECT(ddl_allocate(bytes, &memory) == DDL_SUCCESS);
  REFUSED(ddl_free(memory, bytes / 2), DDL_ERROR_ARGUMENT, "1048576 bytes, not 524288");
  REFUSED(ddl_free((char*)memory + bytes / 2, bytes / 2), DDL_ERROR_ARGUMENT, "ddl_allocate");
  memset(memory, 1, bytes); /* all of it is there */
  EXPECT(ddl_free(memory, bytes) == DDL_SUCCESS);
  REFUSED(ddl_free(memory, bytes), DDL_ERROR_ARGUMENT, "ddl_allocate");
}

/* A child is not the rank that its parent is. */
static void refused_when_forked(ddl_group* world) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    float a = 1, b;
    ddl_group* group;
    wrong = 0;
    REFUSED(ddl_all_reduce(&a, &b, 1, DDL_FLOAT32, DDL_SUM, world), DDL_ERROR_STATE, "forked");
    REFUSED(ddl_group_split(world, 0, 0, &group), DDL_ERROR_STATE, "forked");
    REFUSED(ddl_finalize(world), DDL_ERROR_STATE, "forked");
    _exit(wrong != 0);
  }
  int status = 1;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

/* With handles of the job, all of them still there. */
static void refused_when_finalized(ddl_group* world) {
  float a = 1, b;
  ddl_call call = DDL_CALL;
  call.in = &a, call.out = &b, call.count = 1;
  ddl_group *group, *other;
  ddl_request* request;
  ddl_gradient *gradient, *late;
  ddl_gradient_options part = DDL_GRADIENT_OPTIONS;
  part.count = 1;
  EXPECT(ddl_group_split(world, 3, 0, &group) == DDL_SUCCESS);
  EXPECT(ddl_gradient_create(group, &part, &gradient) == DDL_SUCCESS);
  EXPECT(ddl_finalize(world) == DDL_SUCCESS);
  REFUSED(ddl_barrier(group), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_run(&call, world), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_start(&call, group, &request), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_group_split(world, 0, 0, &other), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_gradient_create(group, &part, &late), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_group_free(group), DDL_ERROR_STATE, "finalized");
  REFUSED(ddl_finalize(world), DDL_ERROR_STATE, "finalized");
  EXPECT(ddl_rank(world) == 0 && ddl_size(world) == 1);
  EXPECT(ddl_gradient_free(gradient) == DDL_SUCCESS);
}

int refusals(void) {
  ddl_group* world = refused_inits();
  refused_calls(world);
  refused_gradients(world);
  refused_groups(world);
  refused_memory();
  EXPECT(ddl_rank(NULL) == -1 && ddl_size(NULL) == -1 && ddl_group_free(NULL) == DDL_SUCCESS);
  EXPECT(strcmp(ddl_error_string((ddl_status)55), "unknown status") == 0);

  refused_when_forked(world);

  /* None of that has harmed the job. */
  all_kinds(world, 1000);
  refused_when_finalized(world);
  return wrong;
}
