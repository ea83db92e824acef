/* float16 and bfloat16. */
#include <math.h>
#include <string.h>

#include "tests/nccl/fake_nccl/fake.h"

static float widen(ncclDataType_t type, unsigned short bits) {
  if (type == ncclBfloat16) {
    unsigned word = (unsigned)bits << 16;
    float wide;
    memcpy(&wide, &word, 4);
    return wide;
  }
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 0    ? ldexpf((float)fraction, -24)
               : exponent == 31 ? (fraction ? NAN : INFINITY)
                                : ldexpf((float)(fraction | 1024), exponent - 25);
  return bits & 0x8000 ? -size : size;
}

/* To the nearest, of two the even one. */
static unsigned short narrow(ncclDataType_t type, float wide) {
  if (type == ncclBfloat16) {
    unsigned word;
    memcpy(&word, &wide, 4);
    return (unsigned short)((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  unsigned short sign = signbit(wide) ? 0x8000 : 0;
  int exponent;
  float size = fabsf(wide);
  if (isnan(size)) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < ldexpf(1, -14)) return (unsigned short)(sign | (int)rintf(ldexpf(size, 24)));
  frexpf(size, &exponent); /* size = x * 2^exponent, x in [0.5, 1) */
  int fraction = (int)rintf(ldexpf(size, 11 - exponent));
  return (unsigned short)(sign | (((exponent + 13) << 10) + fraction));
}

unsigned short fake_fold_half(const struct call* call, const struct area* area, int ranks, size_t i) {
  float total = 0;
  for (int r = 0; r < ranks; ++r) {
    float one = widen(call->type, ((const unsigned short*)area->chunk[r])[i]) * (float)call->scale;
    if (r == 0)
      total = one;
    else if (call->op == ncclProd)
      total *= one;
    else if (call->op == ncclMax)
      total = fmaxf(total, one);
    else if (call->op == ncclMin)
      total = fminf(total, one);
    else
      total += one;
  }
  return narrow(call->type, call->op == ncclAvg ? total / (float)ranks : total);
}
