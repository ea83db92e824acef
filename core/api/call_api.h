/* What the C boundaries share: one collective call, of another library's in the engine's terms, and words for
 * what went wrong. */
#ifndef DDL_CALL_API_H
#define DDL_CALL_API_H

#include <stdint.h>

#include "core/api/ddl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DDL_PROBLEM_BYTES = 512 };

/* What was wrong, in one line. */
typedef struct ddl_problem {
  char text[DDL_PROBLEM_BYTES];
} ddl_problem;

/* Where the blocks of a buffer are, by rank: how long each is and where it begins, in elements. */
typedef struct ddl_block_layout {
  const uint64_t* counts; /* NULL: all alike; of a buffer of one block: what the blocks of all ranks have */
  const int64_t* offsets; /* NULL: one after the other, each with room for the longest */
} ddl_block_layout;

/* An all-to-all of which each two ranks alone know what they have for each other. */
enum {
  DDL_PAIRS = 1,
  DDL_PAIRS_GATHER = 2, /* all have something for one rank alone */
  DDL_PAIRS_SCATTER = 3 /* it for them */
};

/* Buffers as in ddl.h. */
typedef struct ddl_collective_call {
  ddl_kind kind;
  const void* in;
  void* out;
  uint64_t count; /* elements of a block; of the longest */
  ddl_type type;
  ddl_op op;        /* where the kind computes */
  int32_t root;     /* where the kind has one */
  uint8_t variant;  /* tells calls apart that the engine makes alike: 0, or equal on all ranks */
  const char* name; /* for the report, a literal */
  /* In place of `op`, where not NULL: inout[i] = in[i] op inout[i], which must commute. Then `type` only
   * tells how large an element is. Called by threads alone that are in a call into the engine. */
  void (*combine)(void* context, const void* in, void* inout, uint64_t count);
  void* context; /* as long as the call is under way */
  /* Of blocks of unequal length, in an all-gather, a reduce-scatter or an all-to-all; as long as the call is
   * under way. */
  ddl_block_layout in_blocks, out_blocks;
  uint64_t lengths; /* then: a hash of what all ranks know of the lengths, not 0; else 0 */
  int32_t pairwise; /* a DDL_PAIRS_..., or 0 */
  /* Of the program's calls on the communicator, from 1, the same on all ranks; 0: not known. */
  uint64_t number;
} ddl_collective_call;

#ifdef __cplusplus
}
#endif

#endif
