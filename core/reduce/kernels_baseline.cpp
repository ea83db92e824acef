#define DDL_KERNELS baseline
#include "core/reduce/kernels.inl"
