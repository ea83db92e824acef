/* What the files of the stream client share: an NCCL program on device memory, all ranks on one GPU. */
#ifndef DDL_TESTS_NCCL_STREAM_H
#define DDL_TESTS_NCCL_STREAM_H

#include "tests/nccl/stream/device.h"

/* Types that the subset of nccl.h does not name. */
enum { kHalf = 6, kBrain = 9 };

struct here {
  ncclComm_t comm;
  int rank, size;
  stream_t stream;
};

/* The communicator's rank and size, and a stream. */
struct here here_of(ncclComm_t comm);

/* numbers.c, with right results */
void numbers(struct here* here);
void types_and_operations(struct here* here);
void many_of_each_type(struct here* here);
void streams(struct here* here);
void groups(struct here* here);
/* A whole number in that type, and its bytes; n of what this rank brings to a collective, or of the results.
 */
size_t put(int type, int number, void* at);
void fill(char* bytes, size_t n, int type, int op, const struct here* here, int right);
/* fused.c: groups of many all-reduces, `other` being a second communicator of the same ranks; destroys both
 */
void fused(struct here* here, struct here* other);
void fused_without_allocations(struct here* here);
void fused_mismatch(struct here* here);
void time_groups(struct here* here);
/* hierarchy.c: on an NCCL of its own */
void on_hierarchies(struct here* here);
void sum_of_a_plan(struct here* here);
void splits_with_plans(struct here* here); /* destroys the communicator */
void without_allocations(struct here* here);
void tuned(struct here* here);
void tuned_numbers(struct here* here);
void tuned_and_aborted(struct here* here);
void tuned_and_dead(struct here* here);
void splits_without_the_first(struct here* here); /* likewise */
void splits_by_one_thread(struct here* all, int n);
void tuned_by_one_thread(struct here* all, int n);
/* bits.c: prints what came out, for two runs to be compared */
void bits(struct here* here);
/* measure.c; all destroy the communicator */
void accuracy(struct here* here);
void measure(struct here* here);
void overhead(struct here* here);
/* graphs.c; destroys the communicator */
void graphs(struct here* here);
/* collectives.c */
void collectives(struct here* here, size_t most_elements);
void messages(struct here* here);
void eight_bit_floats(struct here* here);
/* usage.c: what must be refused, with the communicator as good as before; and the queries */
void queries(struct here* here);
void memory(void);
void refusals(struct here* here);
void newer_functions(struct here* here);
ncclComm_t when_ready(ncclResult_t result, ncclComm_t* comm);
void splits(struct here* here);
/* Both destroy the communicator. */
void destroyed(struct here* here);
void aborted(struct here* here, ncclResult_t or);
/* The other rank ends, or calls something else. */
void dead_peer(struct here* here);
void await_failure(struct here* here, size_t count); /* also in a later call, of floats */
void dead_amid(struct here* here);
void mismatch_of_scales(struct here* here);
void mismatch(struct here* here);
void mismatch_of_a_message(struct here* here);
void mismatch_of_the_last_chunk(struct here* here);
void same_stream(struct here* here, stream_t stream, atomic_int* refused);

#endif
