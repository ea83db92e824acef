/* What the parts of the client share: its checks, its cases (exit code 0: as it should be), and the calls
 * that several of them make. */
#ifndef DDL_TESTS_API_CLIENT_H
#define DDL_TESTS_API_CLIENT_H

#include <ddl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int wrong;

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

/* Every kind of call on the group, with `count` elements in a block. */
void all_kinds(ddl_group* group, uint64_t count);

int job(void);              /* calls.c */
int gradients(int in_part); /* gradients.c */
int refusals(void);         /* refusals.c */
int mismatch(void);         /* failures.c */
int dead_peer(void);
int lost_request(void);
int no_memory(void);
int killed(void);
int only_init(void);

#endif
