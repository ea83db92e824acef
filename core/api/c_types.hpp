// Between the engine's own enumerations and those of its C boundaries, which have the same numbers.
#pragma once

#include "core/api/ddl.h"
#include "core/plan/kind.hpp"
#include "core/reduce/types.hpp"

namespace ddl {

constexpr ddl_type to_c(DType type) { return static_cast<ddl_type>(type); }
constexpr ddl_op to_c(Op op) { return static_cast<ddl_op>(op); }
constexpr ddl_kind to_c(Kind kind) { return static_cast<ddl_kind>(kind); }
constexpr DType from_c(ddl_type type) { return static_cast<DType>(type); }
constexpr Op from_c(ddl_op op) { return static_cast<Op>(op); }
constexpr Kind from_c(ddl_kind kind) { return static_cast<Kind>(kind); }

static_assert(to_c(DType::int8) == DDL_INT8 && to_c(DType::int16) == DDL_INT16 &&
              to_c(DType::int32) == DDL_INT32 && to_c(DType::int64) == DDL_INT64 &&
              to_c(DType::uint8) == DDL_UINT8 && to_c(DType::uint16) == DDL_UINT16 &&
              to_c(DType::uint32) == DDL_UINT32 && to_c(DType::uint64) == DDL_UINT64 &&
              to_c(DType::float16) == DDL_FLOAT16 && to_c(DType::bfloat16) == DDL_BFLOAT16 &&
              to_c(DType::float32) == DDL_FLOAT32 && to_c(DType::float64) == DDL_FLOAT64 && kDTypes == 12);
static_assert(to_c(Op::sum) == DDL_SUM && to_c(Op::prod) == DDL_PROD && to_c(Op::min) == DDL_MIN &&
              to_c(Op::max) == DDL_MAX && to_c(Op::land) == DDL_LAND && to_c(Op::lor) == DDL_LOR &&
              to_c(Op::lxor) == DDL_LXOR && to_c(Op::band) == DDL_BAND && to_c(Op::bor) == DDL_BOR &&
              to_c(Op::bxor) == DDL_BXOR && kOps == 10);
static_assert(to_c(Kind::all_reduce) == DDL_ALL_REDUCE && to_c(Kind::broadcast) == DDL_BROADCAST &&
              to_c(Kind::reduce) == DDL_REDUCE && to_c(Kind::all_gather) == DDL_ALL_GATHER &&
              to_c(Kind::reduce_scatter) == DDL_REDUCE_SCATTER && to_c(Kind::gather) == DDL_GATHER &&
              to_c(Kind::scatter) == DDL_SCATTER && to_c(Kind::all_to_all) == DDL_ALL_TO_ALL &&
              to_c(Kind::send) == DDL_SEND && to_c(Kind::receive) == DDL_RECEIVE && kKinds == 10);

}  // namespace ddl
