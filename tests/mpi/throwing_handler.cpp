// A C++ program whose error handler throws, as some libraries install one, and its own operation, too. An
// ordinary MPI program.
//
//   throwing_handler [--mismatch]     at last rank 0 calls something else than the others, which plainly
//   hangs
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

struct Refused : std::runtime_error {
  explicit Refused(int with) : std::runtime_error("refused by MPI"), code(with) {}
  int code;
};

void throws(MPI_Comm*, int* code, ...) { throw Refused(*code); }

int failures = 0;

template <class Call>
void expect(int error_class, const char* what, Call call) {
  int found = MPI_SUCCESS;
  try {
    call();
  } catch (const Refused& refused) {
    MPI_Error_class(refused.code, &found);
  }
  if (found == error_class) return;
  ++failures;
  std::printf("check: %s: class %d instead of %d\n", what, found, error_class);
}

void calls(MPI_Comm comm) {
  int in[2] = {1, 2}, out[2] = {0, 0}, ranks = 0, sum = 0;
  MPI_Request request;
  MPI_Comm_size(comm, &ranks);
  expect(MPI_ERR_COUNT, "a broadcast", [&] { MPI_Bcast(in, -1, MPI_INT, 0, comm); });
  expect(MPI_ERR_OP, "an all-reduce", [&] { MPI_Allreduce(in, out, 2, MPI_INT, MPI_OP_NULL, comm); });
  expect(MPI_ERR_COUNT, "a gather",
         [&] { MPI_Igather(in, -1, MPI_INT, out, 1, MPI_INT, 0, comm, &request); });
  MPI_Barrier(comm);
  MPI_Allreduce(in, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (sum == ranks) return;
  ++failures;
  std::printf("check: a sum of %d, not %d\n", sum, ranks);
}

// Adds, but throws at a number that is negative.
void add(void* in, void* inout, int* n, MPI_Datatype*) {
  const auto* from = static_cast<const double*>(in);
  auto* to = static_cast<double*>(inout);
  for (int i = 0; i < *n; ++i) {
    if (from[i] < 0) throw Refused(MPI_ERR_OP);
    to[i] += from[i];
  }
}

void throwing_operation(MPI_Comm comm, int count) {
  std::vector<double> in(static_cast<std::size_t>(count)), out(in.size());
  int ranks = 0;
  MPI_Op op;
  MPI_Comm_size(comm, &ranks);
  MPI_Op_create(add, 1, &op);
  for (int call = 0; call < 9; ++call) {
    const bool is_refused = call % 3 == 2;
    in.assign(in.size(), is_refused ? -1 : call);
    expect(is_refused ? MPI_ERR_OP : MPI_SUCCESS, "an operation of the program's",
           [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_DOUBLE, op, comm); });
    if (is_refused || out.back() == call * ranks) continue;
    ++failures;
    std::printf("check: a sum of %g, not %d\n", out.back(), call * ranks);
  }
  MPI_Op_free(&op);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler handler;
  MPI_Comm comm;
  int rank = 0, data[2] = {1, 2}, all[2];
  MPI_Comm_create_errhandler(throws, &handler);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_set_errhandler(comm, handler);
  for (int i = 0; i < 3; ++i) calls(comm);
  for (int count : {4, 200000}) throwing_operation(comm, count);
  // By one rank alone, of no communicator: that of the world is asked.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  if (rank == 0)
    expect(MPI_ERR_COMM, "no communicator",
           [&] { MPI_Bcast(data, 1, MPI_INT, 0, static_cast<MPI_Comm>(nullptr)); });
  calls(comm);
  if (argc > 1 && std::strcmp(argv[1], "--mismatch") == 0)
    expect(MPI_ERR_OTHER, "different calls",
           [&] { rank == 0 ? MPI_Barrier(comm) : MPI_Allreduce(data, all, 2, MPI_INT, MPI_SUM, comm); });
  MPI_Comm_free(&comm);
  MPI_Errhandler_free(&handler);
  if (rank == 0 && failures == 0) std::printf("check: all is caught\n");
  MPI_Finalize();
  return failures > 0;
}
