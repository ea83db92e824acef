#define DDL_KERNELS avx512
#include "core/reduce/kernels.inl"
