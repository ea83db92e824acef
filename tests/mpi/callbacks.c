/* What a program calls from within MPI: in error handlers, in the callbacks of attributes and generalized
 * requests, and in those that MPI_Finalize makes, on one rank while the others call it from outside. An
 * ordinary MPI program: it knows nothing of who serves its calls. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "persistent_names.h"

static int rank, size;
static long cases, failures;
static MPI_Comm agreed; /* where all ranks meet */
static jmp_buf back;

static void expect(const char* what, long got, long want) {
  ++cases;
  if (got != want && failures++ < 10)
    fprintf(stderr, "check: rank %d, %s: %ld, not %ld\n", rank, what, got, want);
}

static void agree(const char* where) {
  int mine = rank + 1, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, agreed);
  expect(where, all, (long)size * (size + 1) / 2);
}

static void agreeing(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  agree("an error handler");
}
static void leaving(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  (void)code;
  longjmp(back, 1);
}

/* An erroneous call on one rank, whose handler the others meet. */
static void in_error_handlers(void) {
  MPI_Errhandler handler;
  MPI_Comm comm;
  int value = 0;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(agreeing, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  if (rank == 0)
    MPI_Bcast(&value, 1, MPI_INT, size + 7, comm);
  else
    agree("beside an error handler");
  MPI_Errhandler_free(&handler);
  MPI_Comm_create_errhandler(leaving, &handler);
  MPI_Comm_set_errhandler(comm, handler);
  if (rank != 0 || setjmp(back) == 0) {
    if (rank == 0) MPI_Bcast(&value, 1, MPI_INT, size + 7, comm);
  }
  for (int i = 0; i < 50; ++i) agree("after a longjmp");
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&comm);
}

static int type_is_freed(MPI_Datatype type, int key, void* value, void* extra) {
  (void)type, (void)key, (void)value, (void)extra;
  agree("a type's callback");
  return MPI_SUCCESS;
}
static int comm_is_copied(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  agree("a communicator's callback");
  *flag = 1;
  *(void**)out = in;
  return MPI_SUCCESS;
}

static void in_attributes(void) {
  int of_types, of_comms;
  MPI_Datatype type;
  MPI_Comm copy;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, type_is_freed, &of_types, NULL);
  MPI_Comm_create_keyval(comm_is_copied, MPI_COMM_NULL_DELETE_FN, &of_comms, NULL);
  MPI_Type_contiguous(2, MPI_INT, &type);
  if (rank == 0) {
    MPI_Type_set_attr(type, of_types, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, of_comms, NULL);
  }
  if (rank != 0) agree("beside a type's callback");
  MPI_Type_free(&type);
  if (rank != 0) agree("beside a communicator's callback");
  MPI_Comm_dup(MPI_COMM_SELF, &copy);
  if (rank == 0) MPI_Comm_delete_attr(MPI_COMM_SELF, of_comms);
  MPI_Comm_free(&copy);
  MPI_Type_free_keyval(&of_types);
  MPI_Comm_free_keyval(&of_comms);
}

static int query(void* extra, MPI_Status* status) {
  (void)extra;
  agree("a query");
  MPI_Status_set_elements(status, MPI_INT, 1);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}
static int nothing(void* extra) { return extra != NULL; }
static int not_cancelled(void* extra, int complete) { return extra != NULL || complete != 1; }

static void in_requests(void) {
  MPI_Request request;
  int done = 0;
  MPI_Grequest_start(query, nothing, not_cancelled, NULL, &request);
  MPI_Grequest_complete(request);
  if (rank == 0)
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  else
    while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

static int not_to_be_copied(MPI_Datatype type, int key, void* extra, void* in, void* out, int* flag) {
  (void)type, (void)key, (void)extra, (void)in, (void)out, (void)flag;
  expect("a type that is copied", 1, 0);
  return MPI_ERR_OTHER;
}
static MPI_Datatype own_type;
static void add_own(void* in, void* inout, int* n, MPI_Datatype* type) {
  expect("another type", *type == own_type, 1);
  for (int i = 0; i < 2 * *n; ++i) ((int*)inout)[i] += ((int*)in)[i];
}

/* A persistent call has types that the program may free, and copies none with its attributes. */
static void with_held_types(void) {
  int key, values[4] = {rank, rank + 1, 0, 0}, sums[2] = {0, 0};
  MPI_Op op;
  MPI_Datatype vector;
  MPI_Request requests[2];
  MPI_Type_create_keyval(not_to_be_copied, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
  MPI_Type_vector(2, 1, 2, MPI_INT, &vector);
  MPI_Type_contiguous(2, MPI_INT, &own_type);
  MPI_Type_commit(&vector);
  MPI_Type_commit(&own_type);
  MPI_Type_set_attr(vector, key, NULL);
  MPI_Op_create(add_own, 1, &op);
  MPI_Allreduce_init(values, sums, 1, own_type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Bcast_init(values, 1, vector, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  MPI_Start(&requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  expect("a sum", sums[1], (long)size * (size + 1) / 2);
  MPI_Start(&requests[1]);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  expect("the root's", values[0], 0);
  expect("what the type leaves out", values[1], rank + 1);
  for (int i = 0; i < 2; ++i) MPI_Request_free(&requests[i]);
  MPI_Type_free(&vector);
  MPI_Type_free(&own_type);
  MPI_Op_free(&op);
  MPI_Type_free_keyval(&key);
}

static MPI_Request started, persistent;
static int sums_at_end[2];

/* In MPI_Finalize, on all ranks; before that, a rank has waited for what another sends there. */
static int at_end(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  if (rank == 0) MPI_Send(&rank, 1, MPI_INT, size - 1, 5, MPI_COMM_WORLD);
  agree("the end");
  MPI_Wait(&started, MPI_STATUS_IGNORE);
  MPI_Start(&persistent);
  MPI_Wait(&persistent, MPI_STATUS_IGNORE);
  MPI_Request_free(&persistent);
  for (int i = 0; i < 2; ++i) expect("a call that was begun before the end", sums_at_end[i], size);
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  static int one = 1;
  int key, got;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &agreed);
  in_error_handlers();
  in_attributes();
  in_requests();
  with_held_types();
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  MPI_Iallreduce(&one, &sums_at_end[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &started);
  MPI_Allreduce_init(&one, &sums_at_end[1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
  if (rank == size - 1 && size > 1) MPI_Recv(&got, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Finalize();
  if (rank == 0) printf("%ld cases\n", cases);
  return failures != 0 || cases == 0;
}
