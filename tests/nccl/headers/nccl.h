/* Stands for NCCL's own header, for programs that include it by its name. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
#include "tests/nccl/nccl_subset.h"
#ifdef __cplusplus
}
#endif
