/* The engine's types, operations and kinds of collectives at its C boundary: the same numbers as ddl::DType,
 * ddl::Op and ddl::Kind, which core/engine_types.hpp sees to. */
#ifndef DDL_ENGINE_TYPES_H
#define DDL_ENGINE_TYPES_H

typedef enum ddl_type {
  DDL_INT8,
  DDL_INT16,
  DDL_INT32,
  DDL_INT64,
  DDL_UINT8,
  DDL_UINT16,
  DDL_UINT32,
  DDL_UINT64,
  DDL_FLOAT16,
  DDL_BFLOAT16,
  DDL_FLOAT32,
  DDL_FLOAT64
} ddl_type;

typedef enum ddl_op {
  DDL_SUM,
  DDL_PROD,
  DDL_MIN,
  DDL_MAX,
  DDL_LAND,
  DDL_LOR,
  DDL_LXOR,
  DDL_BAND,
  DDL_BOR,
  DDL_BXOR
} ddl_op;

typedef enum ddl_kind {
  DDL_ALL_REDUCE,
  DDL_BROADCAST,
  DDL_REDUCE,
  DDL_ALL_GATHER,
  DDL_REDUCE_SCATTER,
  DDL_GATHER,
  DDL_SCATTER,
  DDL_ALL_TO_ALL,
  DDL_SEND,
  DDL_RECEIVE
} ddl_kind;

#endif
