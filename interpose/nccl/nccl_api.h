/* The words of NCCL's interface as this project declares them, so that it builds where neither CUDA nor NCCL
 * is installed: handles are opaque, enumerations are ints, structures that only travel through are `void`.
 * tests/nccl/header_check.py holds hooks.def against an installed nccl.h. */
#ifndef DDL_INTERPOSE_NCCL_NCCL_API_H
#define DDL_INTERPOSE_NCCL_NCCL_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct CUstream_st* cudaStream_t; /* the runtime's and the driver's streams are one type */
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;
typedef int ncclResult_t;
typedef int ncclDataType_t;
typedef int ncclRedOp_t;
typedef int ncclScalarResidence_t;
/* Both start with their own size in bytes and grow with every version; nobody here looks at the rest. */
typedef void ncclConfig_t;
typedef void ncclSimInfo_t;
typedef void ncclCollConfig_t;
typedef int ncclCommMemStat_t;

enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};

enum { /* element types */
       ncclInt8 = 0,
       ncclUint8 = 1,
       ncclInt32 = 2,
       ncclUint32 = 3,
       ncclInt64 = 4,
       ncclUint64 = 5,
       ncclFloat16 = 6,
       ncclFloat32 = 7,
       ncclFloat64 = 8,
       ncclBfloat16 = 9,
       ncclFloat8e4m3 = 10,
       ncclFloat8e5m2 = 11
};

enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

#ifdef __cplusplus
}
#endif
#endif
