/* MPI behind dlopen(RTLD_LOCAL), as Python extensions and plugins load it. Built twice: as the plugin and as
 * its host, which is not linked with MPI. */
#ifdef DDL_TEST_PLUGIN
#include <mpi.h>

int run_plugin(void) {
  int rank, size;
  float in[1000], out[1000];
  MPI_Init(0, 0);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 1000; ++i) in[i] = (float)(rank + i);
  MPI_Allreduce(in, out, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong |= out[i] != (float)(size * (size - 1) / 2 + size * i);
  MPI_Finalize();
  return wrong;
}
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
  if (!plugin) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  return ((int (*)(void))dlsym(plugin, "run_plugin"))();
}
#endif
