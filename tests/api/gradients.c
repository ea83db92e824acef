/* Gradients that are sent in part, against what every rank works out for all. */
#include <math.h>

#include "client.h"

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

int gradients(int in_part) {
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
