#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/stream/stream.h"

/* Any numbers, of which no sum or product is infinite: the bits of half types and floats between 2^-7 and 2.
 */
static uint64_t some_bits(uint64_t* state, int type) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t random = *state >> 11;
  switch (type) {
    case kHalf:
      return (random & 0x83ff) | (8 + random / 65536 % 8) << 10;
    case kBrain:
      return (random & 0x807f) | (120 + random / 65536 % 8) << 7;
    case ncclFloat32:
      return (random & 0x807fffff) | (120 + (random >> 33) % 8) << 23;
    case ncclFloat64:
      return (random & 0xfffffffffffff) | (1016 + (random >> 40) % 8) << 52;
    default:
      return random;
  }
}

static size_t bytes_of(int type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

static void one(struct here* here, int type, int op, size_t n, size_t offset) {
  size_t each = bytes_of(type), bytes = n * each;
  uint64_t state = (uint64_t)here->rank * 977 + n, hash = 14695981039346656037u;
  unsigned char* at = malloc(bytes);
  for (size_t i = 0; i < n; ++i) {
    uint64_t value = some_bits(&state, type);
    memcpy(at + i * each, &value, each);
  }
  device_pointer from = new_buffer(bytes + 64) + offset * each, to = new_buffer(bytes + 64) + each;
  to_device(from, at, bytes);
  CALL(ncclAllReduce, bytes, (void*)from, (void*)to, n, (ncclDataType_t)type, (ncclRedOp_t)op, here->comm,
       here->stream);
  synchronize(here->stream);
  to_host(at, to, bytes);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  printf("bits: type %d operation %d count %zu: %016llx\n", type, op, n, (unsigned long long)hash);
  free(at);
}

void bits(struct here* here) {
  const size_t counts[] = {1, 3, 1003, 50021};
  for (int type = 0; type < 10; ++type)
    for (int op = 0; op < 5; ++op)
      for (int i = 0; i < 4; ++i) one(here, type, op, counts[i], (size_t)(here->rank + i) % 5);
  expect("ncclCommDestroy", ncclCommDestroy(here->comm), ncclSuccess);
}
