/* Test data and its reference: what a rank contributes, and what the reduction over a set of ranks must be.
 *
 * Integers are verified exactly. Floats are verified against a long double reference, within (p - 1) u
 * sum|x|, the bound that every order of summation keeps. Data is a function of (world rank, seed, index), so
 * that every rank knows the right result without communication. Buffers may be unaligned. */
#ifndef DDL_TESTS_MPI_VALUES_H
#define DDL_TESTS_MPI_VALUES_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum op_kind {
  OP_SUM,
  OP_PROD,
  OP_MIN,
  OP_MAX,
  OP_LAND,
  OP_LOR,
  OP_LXOR,
  OP_BAND,
  OP_BOR,
  OP_BXOR,
  OP_KINDS
};

struct members { /* the ranks of a communicator, as ranks of MPI_COMM_WORLD */
  int size;
  int world[64];
};

struct type_case {
  const char* name;
  MPI_Datatype type;
  size_t bytes;
  int ops;      /* one bit per op_kind */
  int is_float; /* results may differ by rounding, but not between ranks */
  void (*fill)(void* to, size_t count, enum op_kind op, const struct members* of, int me, uint64_t seed);
  /* How many of the elements [from, to) of a result. */
  size_t (*wrong)(const void* result, size_t from, size_t to, enum op_kind op, const struct members* of,
                  uint64_t seed);
};

extern const char* const op_names[OP_KINDS];
MPI_Op op_handle(enum op_kind op);

/* Ends with a row whose name is null. Filled at run time: MPI handles are not constants. */
const struct type_case* all_types(void);

uint64_t mix(uint64_t a, uint64_t b, uint64_t c);
uint64_t hash_bytes(const void* data, size_t bytes);

#endif
