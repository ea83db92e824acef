#include "core/transport/block_copy.hpp"

#include <cstring>

#include "core/base/partition.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

void BlockCopy::copy(std::byte* block, const std::byte* from, Bytes bytes) {
  const bool is_timed = bytes >= kLeast && looks();
  if (bytes < kLeast || is_timed || !is_far()) {
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
