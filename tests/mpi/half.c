/* float16 as Horovod has it: two bytes in a row and operations of the program's own. An ordinary MPI program;
 * with "others" it also makes operations that are none we know, which only the original can do. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;

/* Of small integers, which are exact. */
static uint16_t half_of(int value) {
  uint16_t sign = value < 0 ? 0x8000 : 0;
  unsigned rest = (unsigned)abs(value), exponent = 0;
  if (rest == 0) return sign;
  while (rest >> (exponent + 1)) ++exponent;
  return (uint16_t)(sign | ((exponent + 15) << 10) | ((rest << (10 - exponent)) & 0x3ff));
}
static float float_of(uint16_t half) {
  unsigned exponent = (half >> 10) & 31, mantissa = half & 0x3ff;
  float value = exponent ? (float)(mantissa | 0x400) : (float)mantissa;
  for (int e = (int)(exponent ? exponent : 1) - 25; e != 0; e += e < 0 ? 1 : -1) value *= e < 0 ? 0.5f : 2.0f;
  return half & 0x8000 ? -value : value;
}
/* Rounds to nearest even; of what these programs come to: no infinities. */
static uint16_t rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  int exponent = (int)((bits >> 23) & 255) - 112;
  uint32_t sign = bits >> 16 & 0x8000, mantissa = bits & 0x7fffff;
  if (exponent <= 0) {
    if (exponent < -10) return (uint16_t)sign;
    mantissa = (mantissa | 0x800000) >> (1 - exponent);
    exponent = 0;
  }
  uint32_t half = sign | (uint32_t)exponent << 10 | mantissa >> 13, rest = mantissa & 0x1fff;
  if (rest > 0x1000 || (rest == 0x1000 && (half & 1))) ++half;
  return (uint16_t)half;
}

#define OPERATION(name, result)                                                    \
  static void name(void* in, void* inout, int* n, MPI_Datatype* type) {            \
    (void)type;                                                                    \
    for (int i = 0; i < *n; ++i) {                                                 \
      float a = float_of(((uint16_t*)in)[i]), b = float_of(((uint16_t*)inout)[i]); \
      ((uint16_t*)inout)[i] = rounded(result);                                     \
    }                                                                              \
  }
OPERATION(sum, a + b)
OPERATION(product, a* b)
OPERATION(least, a < b ? a : b)
OPERATION(most, a > b ? a : b)
OPERATION(three, 3 + 0 * a + 0 * b)

typedef int combine(int a, int b);
static int add(int a, int b) { return a + b; }
static int multiply(int a, int b) { return a * b; }
static int lower(int a, int b) { return a < b ? a : b; }
static int higher(int a, int b) { return a > b ? a : b; }

static int value(int of, int i) { return (i + of) % 3 - 1; }

static void check(const char* name, MPI_User_function* function, combine* right, MPI_Datatype type,
                  int count) {
  uint16_t* data = malloc((size_t)count * 2);
  MPI_Op op;
  MPI_Op_create(function, 1, &op);
  for (int i = 0; i < count; ++i) data[i] = half_of(value(rank, i));
  MPI_Allreduce(MPI_IN_PLACE, data, count, type, op, MPI_COMM_WORLD);
  for (int i = 0; i < count && wrong < 5; ++i) {
    int expected = value(0, i);
    for (int r = 1; r < size; ++r) expected = right(expected, value(r, i));
    if (float_of(data[i]) != (float)expected && ++wrong)
      printf("%s of %d: element %d is %g instead of %d\n", name, count, i, (double)float_of(data[i]),
             expected);
  }
  MPI_Op_free(&op); /* the next one may get its handle */
  free(data);
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Datatype half;
  MPI_Type_contiguous(2, MPI_BYTE, &half);
  MPI_Type_commit(&half);
  for (int round = 0; round < 3; ++round)
    for (int count = 1; count < 300000; count = count * 7 + 1) {
      check("sum", sum, add, half, count);
      check("product", product, multiply, half, count);
      check("minimum", least, lower, half, count);
      check("maximum", most, higher, half, count);
    }
  if (argc > 1 && strcmp(argv[1], "others") == 0) {
    uint16_t data[3] = {half_of(1), half_of(1), half_of(1)};
    MPI_Op op;
    MPI_Op_create(three, 1, &op);
    MPI_Allreduce(MPI_IN_PLACE, data, 3, half, op, MPI_COMM_WORLD);
    if (float_of(data[2]) != (size > 1 ? 3.0f : 1.0f))
      printf("an unknown operation: %g\n", (double)float_of(data[2])), ++wrong;
    MPI_Op_free(&op);
  }
  MPI_Type_free(&half);
  printf("check: rank %d of %d: %d wrong\n", rank, size, wrong);
  MPI_Finalize();
  return wrong != 0;
}
