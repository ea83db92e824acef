/* The communicators the matrix runs on. Collective over MPI_COMM_WORLD, one thread. */
#ifndef DDL_TESTS_MPI_COMMUNICATORS_H
#define DDL_TESTS_MPI_COMMUNICATORS_H

#include "check.h"

enum { kMaxGroups = 16 };

/* The first one is MPI_COMM_WORLD; returns how many. */
int make_groups(struct group groups[kMaxGroups]);
void free_groups(struct group* groups, int number);

/* Makes, uses and frees many, so that handles and identities are reused, and some while others live on. */
void churn(int rounds);

/* What the engine never takes: intercommunicators, derived types, operations that do not commute; and pairs, bool.
 */
void check_passed_through(const struct group* world);

#endif
