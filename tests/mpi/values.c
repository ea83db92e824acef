#include "values.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define BIT(op) (1 << (op))
#define ARITHMETIC (BIT(OP_SUM) | BIT(OP_PROD) | BIT(OP_MIN) | BIT(OP_MAX))
#define BITWISE (BIT(OP_BAND) | BIT(OP_BOR) | BIT(OP_BXOR))
#define LOGICAL (BIT(OP_LAND) | BIT(OP_LOR) | BIT(OP_LXOR))
#define INTEGER (ARITHMETIC | BITWISE | LOGICAL)

const char* const op_names[OP_KINDS] = {"sum", "prod", "min",  "max", "land",
                                        "lor", "lxor", "band", "bor", "bxor"};

MPI_Op op_handle(enum op_kind op) {
  const MPI_Op handles[OP_KINDS] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_LAND,
                                    MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
  return handles[op];
}

uint64_t mix(uint64_t a, uint64_t b, uint64_t c) {
  uint64_t x =
      a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + c * 0x165667B19E3779F9u + 0x27D4EB2F165667C5u;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 29;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 32);
}

uint64_t hash_bytes(const void* data, size_t bytes) {
  const char* at = data;
  uint64_t hash = bytes;
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, at + i, bytes - i < sizeof word ? bytes - i : sizeof word);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash;
}

/* The contribution of member `me` to element i, in the low bits. Sums and products stay in range: MPI leaves
 * overflow open. Of a product one member gives the magnitude, the others a sign. */
static uint64_t integer(enum op_kind op, int bits, int is_signed, const struct members* of, int me,
                        uint64_t seed, uint64_t i) {
  const uint64_t h = mix((uint64_t)of->world[me], seed, i);
  const int room = bits - 1 - 4; /* of up to 15 ranks; the sign bit stays free in unsigned types, too */
  const uint64_t range = (uint64_t)1 << room;
  switch (op) {
    case OP_SUM:
      return is_signed ? h % (2 * range) - range : h % (2 * range);
    case OP_PROD: {
      const uint64_t magnitude = i % (uint64_t)of->size == (uint64_t)me ? 1 + h % (range - 1) : 1;
      return is_signed && (h >> 60) % 2 ? (uint64_t)0 - magnitude : magnitude;
    }
    case OP_LAND:
      return h % 8 == 0 ? 0 : (h >> 8) | ((uint64_t)1 << (h % (uint64_t)bits));
    case OP_LOR:
      return h % 2 == 0 ? 0 : (h >> 8) % 3;
    case OP_LXOR:
      return h % 2 == 0 ? 0 : (h >> 8);
    case OP_BAND:
      return h | (h >> 17) | (h << 13);
    default:
      return bits == 63 ? h >> 1 : h;
  }
}

#define DEFINE_INTEGER(T, BITS, SIGNED)                                                            \
  static T combine_##T(enum op_kind op, T a, T b) {                                                \
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;                                               \
    switch (op) {                                                                                  \
      case OP_SUM:                                                                                 \
        return (T)(x + y);                                                                         \
      case OP_PROD:                                                                                \
        return (T)(x * y);                                                                         \
      case OP_MIN:                                                                                 \
        return a < b ? a : b;                                                                      \
      case OP_MAX:                                                                                 \
        return a > b ? a : b;                                                                      \
      case OP_LAND:                                                                                \
        return (T)(a && b);                                                                        \
      case OP_LOR:                                                                                 \
        return (T)(a || b);                                                                        \
      case OP_LXOR:                                                                                \
        return (T)(!a != !b);                                                                      \
      case OP_BAND:                                                                                \
        return (T)(x & y);                                                                         \
      case OP_BOR:                                                                                 \
        return (T)(x | y);                                                                         \
      default:                                                                                     \
        return (T)(x ^ y);                                                                         \
    }                                                                                              \
  }                                                                                                \
  static void fill_##T(void* to, size_t n, enum op_kind op, const struct members* of, int me,      \
                       uint64_t seed) {                                                            \
    for (size_t i = 0; i < n; ++i) {                                                               \
      const T v = (T)integer(op, BITS, SIGNED, of, me, seed, i);                                   \
      memcpy((char*)to + i * sizeof(T), &v, sizeof(T));                                            \
    }                                                                                              \
  }                                                                                                \
  static size_t wrong_##T(const void* result, size_t from, size_t to, enum op_kind op,             \
                          const struct members* of, uint64_t seed) {                               \
    size_t found = 0;                                                                              \
    for (size_t i = from; i < to; ++i) {                                                           \
      T got, want = (T)integer(op, BITS, SIGNED, of, 0, seed, i);                                  \
      for (int m = 1; m < of->size; ++m)                                                           \
        want = combine_##T(op, want, (T)integer(op, BITS, SIGNED, of, m, seed, i));                \
      memcpy(&got, (const char*)result + i * sizeof(T), sizeof(T));                                \
      /* one rank's logical operation is a copy to some libraries and a truth value to others */   \
      if (of->size == 1 && op >= OP_LAND && op <= OP_LXOR ? !got != !want : got != want) ++found;  \
    }                                                                                              \
    return found;                                                                                  \
  }

DEFINE_INTEGER(int8_t, 8, 1)
DEFINE_INTEGER(uint8_t, 8, 0)
DEFINE_INTEGER(int16_t, 16, 1)
DEFINE_INTEGER(uint16_t, 16, 0)
DEFINE_INTEGER(int32_t, 32, 1)
DEFINE_INTEGER(uint32_t, 32, 0)
DEFINE_INTEGER(int64_t, 64, 1)
DEFINE_INTEGER(uint64_t, 64, 0)

/* The operations that are not for it multiply, too. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
DEFINE_INTEGER(bool, 8, 0)
#pragma GCC diagnostic pop

/* Open MPI 4.1.4 compares MPI_UNSIGNED_LONG as if it were signed (MPI_UINT64_T it compares rightly), and what
 * goes to the original library has to pass here as well. */
typedef uint64_t uint63_t;
DEFINE_INTEGER(uint63_t, 63, 0)

/* Sums: both signs and eight binary orders of magnitude. Products: near one. */
static double real(enum op_kind op, const struct members* of, int me, uint64_t seed, uint64_t i) {
  const uint64_t h = mix((uint64_t)of->world[me], seed, i);
  const double unit = (double)(h >> 11) / 9007199254740992.0; /* [0, 1) */
  if (op == OP_PROD) return (h % 2 ? -1.0 : 1.0) * (0.5 + unit);
  return (h % 2 ? -1.0 : 1.0) * (0.25 + unit) * (double)(1 << (h >> 2) % 8);
}

#define DEFINE_FLOAT(T, EPSILON)                                                                   \
  static void fill_##T(void* to, size_t n, enum op_kind op, const struct members* of, int me,      \
                       uint64_t seed) {                                                            \
    for (size_t i = 0; i < n; ++i) {                                                               \
      const T v = (T)real(op, of, me, seed, i);                                                    \
      memcpy((char*)to + i * sizeof(T), &v, sizeof(T));                                            \
    }                                                                                              \
  }                                                                                                \
  static size_t wrong_##T(const void* result, size_t from, size_t to, enum op_kind op,             \
                          const struct members* of, uint64_t seed) {                               \
    size_t found = 0;                                                                              \
    for (size_t i = from; i < to; ++i) {                                                           \
      T got;                                                                                       \
      long double want = (T)real(op, of, 0, seed, i), sum = fabsl(want);                           \
      for (int m = 1; m < of->size; ++m) {                                                         \
        const long double v = (T)real(op, of, m, seed, i);                                         \
        sum += fabsl(v);                                                                           \
        if (op == OP_SUM) want += v;                                                               \
        if (op == OP_PROD) want *= v;                                                              \
        if (op == OP_MIN && v < want) want = v;                                                    \
        if (op == OP_MAX && v > want) want = v;                                                    \
      }                                                                                            \
      memcpy(&got, (const char*)result + i * sizeof(T), sizeof(T));                                \
      const long double scale = op == OP_SUM ? sum : op == OP_PROD ? fabsl(want) : 0;              \
      /* a little more than (p - 1) u: the reference itself is rounded */                          \
      if (!(fabsl(got - want) <= (of->size - 1) * (EPSILON / 2.0L) * scale * 1.001L)) ++found;     \
    }                                                                                              \
    return found;                                                                                  \
  }

DEFINE_FLOAT(float, FLT_EPSILON)
DEFINE_FLOAT(double, DBL_EPSILON)

/* Of each part alone. */
#define DEFINE_COMPLEX(T)                                                                                    \
  typedef T T##_complex[2];                                                                                  \
  static void fill_##T##_complex(void* to, size_t n, enum op_kind op, const struct members* of, int me,      \
                                 uint64_t seed) {                                                            \
    fill_##T(to, 2 * n, op, of, me, seed);                                                                   \
  }                                                                                                          \
  static size_t wrong_##T##_complex(const void* result, size_t from, size_t to, enum op_kind op,             \
                                    const struct members* of, uint64_t seed) {                               \
    return wrong_##T(result, 2 * from, 2 * to, op, of, seed);                                                \
  }

DEFINE_COMPLEX(float)
DEFINE_COMPLEX(double)

#define ROW(NAME, T, OPS, IS_FLOAT) \
  { #NAME, NAME, sizeof(T), OPS, IS_FLOAT, fill_##T, wrong_##T }

const struct type_case* all_types(void) {
  static struct type_case table[48];
  const struct type_case rows[] = {
      ROW(MPI_FLOAT, float, ARITHMETIC, 1),
      ROW(MPI_DOUBLE, double, ARITHMETIC, 1),
      ROW(MPI_INT8_T, int8_t, INTEGER, 0),
      ROW(MPI_UINT8_T, uint8_t, INTEGER, 0),
      ROW(MPI_INT16_T, int16_t, INTEGER, 0),
      ROW(MPI_UINT16_T, uint16_t, INTEGER, 0),
      ROW(MPI_INT32_T, int32_t, INTEGER, 0),
      ROW(MPI_UINT32_T, uint32_t, INTEGER, 0),
      ROW(MPI_INT64_T, int64_t, INTEGER, 0),
      ROW(MPI_UINT64_T, uint64_t, INTEGER, 0),
      ROW(MPI_SIGNED_CHAR, int8_t, INTEGER, 0),
      ROW(MPI_UNSIGNED_CHAR, uint8_t, INTEGER, 0),
      ROW(MPI_SHORT, int16_t, INTEGER, 0),
      ROW(MPI_UNSIGNED_SHORT, uint16_t, INTEGER, 0),
      ROW(MPI_INT, int32_t, INTEGER, 0),
      ROW(MPI_UNSIGNED, uint32_t, INTEGER, 0),
      ROW(MPI_LONG, int64_t, INTEGER, 0),
      ROW(MPI_UNSIGNED_LONG, uint63_t, INTEGER, 0),
      ROW(MPI_LONG_LONG_INT, int64_t, INTEGER, 0),
      ROW(MPI_UNSIGNED_LONG_LONG, uint64_t, INTEGER, 0),
      ROW(MPI_C_BOOL, bool, LOGICAL, 0),
      ROW(MPI_C_FLOAT_COMPLEX, float_complex, BIT(OP_SUM), 1),
      ROW(MPI_C_DOUBLE_COMPLEX, double_complex, BIT(OP_SUM), 1),
      ROW(MPI_REAL, float, ARITHMETIC, 1),
      ROW(MPI_DOUBLE_PRECISION, double, ARITHMETIC, 1),
      ROW(MPI_INTEGER, int32_t, ARITHMETIC | BITWISE, 0),
      ROW(MPI_LOGICAL, int32_t, LOGICAL, 0),
      ROW(MPI_COMPLEX, float_complex, BIT(OP_SUM), 1),
      ROW(MPI_DOUBLE_COMPLEX, double_complex, BIT(OP_SUM), 1),
      {NULL, MPI_DATATYPE_NULL, 0, 0, 0, NULL, NULL},
  };
  struct type_case* to = table;
  for (const struct type_case* row = rows; row->name; ++row) {
    int bytes = 0; /* of Fortran's types what the library's compiler says, 0 without one */
    if (MPI_Type_size(row->type, &bytes) == MPI_SUCCESS && (size_t)bytes == row->bytes) *to++ = *row;
  }
  *to = (struct type_case){NULL, MPI_DATATYPE_NULL, 0, 0, 0, NULL, NULL};
  return table;
}
