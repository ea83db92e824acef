/* A small MPI program whose calls are counted. Each rank makes 100 all-reduces that the engine takes, and
 * five with an operation of its own, which it does not.
 *
 *   calls mpi | pmpi      by these names
 *   calls file FILE       and writes and reads a file with all ranks together in between */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { SERVED = 100, NOT_SERVED = 5, ELEMENTS = 100, BLOCKS = 1000 };
typedef int all_reduce_function(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);

static int rank, size, wrong;

static void smaller(void* in, void* inout, int* count, MPI_Datatype* type) {
  const float* a = in;
  float* b = inout;
  (void)type;
  for (int i = 0; i < *count; ++i) b[i] = a[i] < b[i] ? a[i] : b[i];
}

static void reduce(all_reduce_function* all_reduce, int calls, MPI_Op op, float expected) {
  for (int c = 0; c < calls; ++c) {
    float in[ELEMENTS], out[ELEMENTS];
    for (int i = 0; i < ELEMENTS; ++i) in[i] = (float)(rank + 1);
    all_reduce(in, out, ELEMENTS, MPI_FLOAT, op, MPI_COMM_WORLD);
    for (int i = 0; i < ELEMENTS; ++i) wrong |= out[i] != expected;
  }
}

/* The ranks' blocks take turns in the file, so that they have to exchange them. */
static void write_and_read(const char* name) {
  MPI_File file;
  MPI_Datatype blocks;
  MPI_Info hints;
  static int in[BLOCKS], out[BLOCKS];
  for (int i = 0; i < BLOCKS; ++i) in[i] = rank * BLOCKS + i;
  MPI_Info_create(&hints);
  MPI_Info_set(hints, "romio_cb_write", "enable");
  MPI_Info_set(hints, "romio_cb_read", "enable");
  wrong |= MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file) != MPI_SUCCESS;
  MPI_Type_vector(BLOCKS, 1, size, MPI_INT, &blocks);
  MPI_Type_commit(&blocks);
  MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank, MPI_INT, blocks, "native", hints);
  wrong |= MPI_File_write_all(file, in, BLOCKS, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  wrong |= MPI_File_read_all(file, out, BLOCKS, MPI_INT, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  wrong |= memcmp(in, out, sizeof in) != 0;
  MPI_File_close(&file);
  MPI_Type_free(&blocks);
  MPI_Info_free(&hints);
}

int main(int argc, char** argv) {
  int by_pmpi = argc > 1 && strcmp(argv[1], "pmpi") == 0;
  all_reduce_function* all_reduce = by_pmpi ? PMPI_Allreduce : MPI_Allreduce;
  MPI_Op own;
  if (by_pmpi)
    PMPI_Init(&argc, &argv);
  else
    MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op_create(smaller, 1, &own);
  reduce(all_reduce, SERVED / 2, MPI_SUM, (float)(size * (size + 1) / 2));
  if (argc > 2) write_and_read(argv[2]);
  reduce(all_reduce, NOT_SERVED, own, 1);
  reduce(all_reduce, SERVED / 2, MPI_MAX, (float)size);
  MPI_Op_free(&own);
  if (wrong) fprintf(stderr, "calls: rank %d: wrong results\n", rank);
  if (by_pmpi)
    PMPI_Finalize();
  else
    MPI_Finalize();
  return wrong;
}
