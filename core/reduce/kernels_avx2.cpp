#define DDL_KERNELS avx2
#include "core/reduce/kernels.inl"
