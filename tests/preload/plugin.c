/* MPI behind dlopen, as Python extensions, plugins and MPItrampoline load it. Built as the plugin, and as its
 * host, which is not linked with MPI:
 *
 *   host FILE local|deep|deep_lazy|space   opens the plugin so and lets it make an all-reduce
 *   host by_hand local|deep [P]            opens MPI itself and asks for each function of it, by its PMPI
 * name
 *
 * With DDL_TEST_PMPI the plugin calls PMPI functions.
 * Both have a `which_one`: RTLD_DEEPBIND decides whose the plugin calls. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>

enum { OF_HOST = 1, OF_PLUGIN = 2 };
int which_one(void);

struct mpi {
  int (*init)(int*, char***);
  int (*comm_rank)(MPI_Comm, int*);
  int (*comm_size)(MPI_Comm, int*);
  int (*allreduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
  int (*finalize)(void);
  MPI_Datatype float_type;
  MPI_Op sum;
  MPI_Comm world;
};

static int make_an_allreduce(const struct mpi* mpi) {
  int rank, size, wrong = 0;
  float in[1000], out[1000];
  mpi->init(0, 0);
  mpi->comm_rank(mpi->world, &rank);
  mpi->comm_size(mpi->world, &size);
  for (int i = 0; i < 1000; ++i) in[i] = (float)(rank + i);
  mpi->allreduce(in, out, 1000, mpi->float_type, mpi->sum, mpi->world);
  for (int i = 0; i < 1000; ++i) wrong |= out[i] != (float)(size * (size - 1) / 2 + size * i);
  mpi->finalize();
  return wrong;
}

#ifdef DDL_TEST_PMPI
#define OF_MPI(name) P##name
#else
#define OF_MPI(name) name
#endif

#ifdef DDL_TEST_PLUGIN
int which_one(void) { return OF_PLUGIN; }

/* In a table of data for one plugin, in its code for the other. */
#ifdef DDL_TEST_TABLE
static const struct mpi table = {MPI_Init,     MPI_Comm_rank, MPI_Comm_size, MPI_Allreduce,
                                 MPI_Finalize, MPI_FLOAT,     MPI_SUM,       MPI_COMM_WORLD};
static const struct mpi* functions(void) { return &table; }
#else
static int init(int* argc, char*** argv) { return OF_MPI(MPI_Init)(argc, argv); }
static int comm_rank(MPI_Comm comm, int* rank) { return MPI_Comm_rank(comm, rank); }
static int comm_size(MPI_Comm comm, int* size) { return MPI_Comm_size(comm, size); }
static int allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return OF_MPI(MPI_Allreduce)(in, out, count, type, op, comm);
}
static int finalize(void) { return OF_MPI(MPI_Finalize)(); }
static const struct mpi* functions(void) {
  static struct mpi calls;
  calls = (struct mpi){init, comm_rank, comm_size, allreduce, finalize, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD};
  return &calls;
}
#endif

int run_plugin(int expected) {
  int got = which_one(), wrong = make_an_allreduce(functions());
  if (got != expected) fprintf(stderr, "which_one is %d's, not %d's\n", got, expected);
  if (wrong) fprintf(stderr, "wrong sums\n");
  return wrong || got != expected;
}
#else
#include <dlfcn.h>
#include <string.h>

int which_one(void) { return OF_HOST; }

static void* ask(void* library, const char* prefix, const char* name) {
  char whole[64];
  snprintf(whole, sizeof whole, "%s%s", prefix, name);
  return dlsym(library, whole);
}

static int by_hand(int mode, const char* prefix) {
  void* looked_at = dlopen("libmpi.so.40", mode); /* whether there is one */
  if (!looked_at || !dlsym(looked_at, "MPI_Allreduce") || dlclose(looked_at) != 0) return 2;
  void* library = dlopen("libmpi.so.40", mode);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
  struct mpi mpi;
  *(void**)&mpi.init = ask(library, prefix, "MPI_Init");
  *(void**)&mpi.comm_rank = ask(library, prefix, "MPI_Comm_rank");
  *(void**)&mpi.comm_size = ask(library, prefix, "MPI_Comm_size");
  *(void**)&mpi.allreduce = ask(library, prefix, "MPI_Allreduce");
  *(void**)&mpi.finalize = ask(library, prefix, "MPI_Finalize");
  mpi.float_type = (MPI_Datatype)dlsym(library, "ompi_mpi_float");
  mpi.sum = (MPI_Op)dlsym(library, "ompi_mpi_op_sum");
  mpi.world = (MPI_Comm)dlsym(library, "ompi_mpi_comm_world");
  if (dlsym(library, "MPI_None") || !dlerror()) return fprintf(stderr, "dlerror is lost\n"), 2;
  return make_an_allreduce(&mpi);
}

int main(int argc, char** argv) {
  const char *file = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "local";
  int deep = strncmp(how, "deep", 4) == 0, apart = strcmp(how, "space") == 0;
  int mode = (strcmp(how, "deep_lazy") == 0 ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0);
  if (strcmp(file, "by_hand") == 0) return by_hand(mode, argc > 3 ? argv[3] : "");
  void* plugin = apart ? dlmopen(LM_ID_NEWLM, file, mode) : dlopen(file, mode);
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 2;
  int (*run)(int) = (int (*)(int))dlsym(plugin, "run_plugin");
  return run(deep || apart ? OF_PLUGIN : OF_HOST);
}
#endif
