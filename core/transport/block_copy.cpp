#include "core/transport/block_copy.hpp"

#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/base/partition.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

// A plain copy waits for one line after the other from the reader's cache; the string instruction of Intel's
// processors asks for many at once. Of 1 KiB and less it takes longer to begin (512 bytes there and back, two
// ranks: 0.44 us instead of 0.32; 2 KiB 0.76 instead of 1.01). From 2112 bytes on the C library uses it, too.
constexpr Bytes kShort = 1 << 10, kLong = 4 << 10;

#if defined(__x86_64__)
bool finds_fast_strings() {
  constexpr unsigned kFeatures = 7, kFastShortRepMov = 1u << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") && __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) &&
         (d & kFastShortRepMov) != 0;
}
const bool has_fast_strings = finds_fast_strings();
#endif

}  // namespace

void write_block(std::byte* block, const std::byte* from, Bytes bytes) {
#if defined(__x86_64__)
  if (bytes > kShort && bytes <= kLong && has_fast_strings) {
    asm volatile("rep movsb" : "+D"(block), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(block, from, bytes);
}

void BlockCopy::copy(std::byte* block, const std::byte* from, Bytes bytes) {
  if (bytes < kLeast) return write_block(block, from, bytes);
  const bool is_timed = looks();
  if (is_timed || !is_far()) {
    const Nanoseconds before = is_timed ? now() : 0;
    std::memcpy(block, from, bytes);
    if (is_timed) note(bytes, now() - before);
  } else {
    stream(block, from, bytes);
    stream_end();
  }
}

bool BlockCopy::looks() {
  const int left = until_look_.load(std::memory_order_relaxed);
  if (left > 0) until_look_.store(left - 1, std::memory_order_relaxed);
  return left == 0;
}

// What speaks against what is believed counts when it comes several times in a row.
void BlockCopy::note(Bytes bytes, Nanoseconds time) {
  const bool was_far = is_far();
  const bool looks_far = time > kFar * static_cast<Nanoseconds>(bytes / kCacheLine);
  const int in_a_row = looks_far == was_far ? 0 : in_a_row_.load(std::memory_order_relaxed) + 1;
  const bool turns = in_a_row == kInARow, far = was_far != turns;
  in_a_row_.store(turns ? 0 : in_a_row, std::memory_order_relaxed);
  is_far_.store(far, std::memory_order_relaxed);
  until_look_.store((far ? kLookFromAfarEvery : kLookEvery) - 1, std::memory_order_relaxed);
}

}  // namespace ddl
