/* An NCCL program that knows nothing of the engine: what its files share. Every result is checked; what the
 * process called is tallied, to be held against the report. */
#ifndef DDL_TESTS_NCCL_CLIENT_H
#define DDL_TESTS_NCCL_CLIENT_H

#include <stdint.h>

#include "tests/nccl/nccl_subset.h"

/* tally.c */
/* Calls that must succeed and that the report counts. */
#define CALL(name, bytes, ...) (tally(#name, bytes), expect(#name, name(__VA_ARGS__), ncclSuccess))

void tally(const char* name, uint64_t bytes);
void print_tally(void);

void expect(const char* what, int got, int wanted);
void check(int right, const char* what);
extern int wrong; /* results so far */

/* What rank `rank` brings as element i, small enough that every sum is exact. */
double value(int rank, size_t i);
double* values(int rank, size_t n);
/* FNV-1a, so that two runs can be compared. */
uint64_t hash(uint64_t so_far, const void* data, size_t bytes);

/* ranks.c: each rank a process, or a thread; how many processes failed. */
int processes(int size);
void threads(int size);
void one_rank(int rank); /* the program's */

/* cases.c: on one communicator, by one rank; the result is a hash of all outputs. */
uint64_t all_cases(ncclComm_t comm);

#endif
