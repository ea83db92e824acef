/* Doubles of what cannot be served: built once as each of these libraries, with the functions by which it is
 * known. `begin` does what the library itself does when it begins, and returns 7. */
#define _GNU_SOURCE
#include <dlfcn.h>

int begin(void);

#if defined(DDL_TEST_LIGHTGBM)
int LGBM_NetworkInit(const char* machines, int port, int timeout, int count);
int LGBM_NetworkInit(const char* machines, int port, int timeout, int count) {
  return machines && port == 12400 && timeout == 120 && count == 2 ? 7 : 0;
}
#elif defined(DDL_TEST_XGBOOST)
int XGCommunicatorInit(const char* config);
int XGCommunicatorInit(const char* config) { return config ? 7 : 0; }
#elif defined(DDL_TEST_TENSORFLOW)
void TFE_EnableCollectiveOps(void* context, const void* definition, unsigned long bytes, int* status);
void TFE_EnableCollectiveOps(void* context, const void* definition, unsigned long bytes, int* status) {
  *status = context && definition && bytes == 5 ? 7 : 0;
}
#elif defined(DDL_TEST_TENSORFLOW_PYTHON)
void TFE_EnableCollectiveOps(void* context, const void* definition, unsigned long bytes, int* status);
int begin(void) {
  int status = 1;
  TFE_EnableCollectiveOps(&status, "hello", 5, &status);
  return status;
}
#else /* NCCL, for itself or for all */
int ncclAllReduce(void);
#ifdef DDL_TEST_NCCL_INSIDE
__attribute__((visibility("hidden")))
#endif
int ncclAllReduce(void) {
  return 7;
}
int begin(void) { return dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL) ? 0 : ncclAllReduce(); }
#endif
