#include "core/collective/landing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr Bytes kPiece = 8 << 10;  // stays in the first-level cache between its making and its copying
// What comes from memory and goes there is fetched one piece ahead, while the piece before is written. 64 MiB
// of two ranks: 1 KiB 10.5 ms, 4 KiB 11.3 ms, 8 KiB without fetching ahead 11.4 ms. The bound: every byte
// misses the second-level cache four times (own and peer's read, block and result written), and a core has 48
// such misses under way, of some 105 ns each: 9.2 ms. Peer's read through process_vm_readv: no better.
constexpr Bytes kStreamedPiece = 1 << 10;
constexpr Bytes kLine = 64;

template <int kWrites>
void fetch(const void* from, Bytes bytes) {
  for (Bytes at = 0; at < bytes; at += kLine)
    __builtin_prefetch(static_cast<const std::byte*>(from) + at, kWrites);
}

void step_on(const Landing& l, Bytes bytes) {
  for (const void*& source : l.sources) source = static_cast<const std::byte*>(source) + bytes;
}

void fold_cached(const Landing& l) {
  Bytes element = size_of(l.type), done = 0;
  for (Elements left = l.count, n = 0; left > 0; left -= n) {
    n = std::min<Elements>(left, kPiece / element);
    std::byte* out = l.out + done;
    reduce(l.type, l.op, out, l.sources, n);
    // A plain copy and not a second store of the fold: it takes the lines, which the peers have read last,
    // without asking for their old content (64 KiB of two ranks: 14 against 20 us).
    std::memcpy(l.forward + done, out, n * element);
    step_on(l, n * element);
    done += n * element;
  }
}

void fold_streamed(const Landing& l) {
  alignas(kLine) std::array<std::byte, kStreamedPiece> piece;
  Bytes element = size_of(l.type), done = 0;
  // The first piece ends with a line of the output, so that all others have only whole ones.
  Bytes size = kStreamedPiece - reinterpret_cast<std::uintptr_t>(l.out) % kLine / element * element;
  for (Elements left = l.count, n = 0; left > 0; left -= n) {
    n = std::min<Elements>(left, std::exchange(size, kStreamedPiece) / element);
    reduce(l.type, l.op, piece.data(), l.sources, n);
    step_on(l, n * element);
    for (const void* source : l.sources) fetch<0>(source, kStreamedPiece);
    if (l.forward) {
      fetch<1>(l.forward + done + n * element, kStreamedPiece);
      stream_and_keep(l.out + done, l.forward + done, piece.data(), n * element);
    } else {
      stream(l.out + done, piece.data(), n * element);
    }
    done += n * element;
  }
}

void copy_on(const Landing& l) {
  auto* from = static_cast<const std::byte*>(l.sources[0]);
  Bytes bytes = l.count * size_of(l.type);
  if (from == l.out) {  // it arrived at its place
    if (l.forward) std::memcpy(l.forward, from, bytes);
  } else if (l.store == Store::streamed) {
    l.forward ? stream_and_keep(l.out, l.forward, from, bytes) : stream(l.out, from, bytes);
  } else if (!l.forward) {
    std::memcpy(l.out, from, bytes);
  } else {
    for (Bytes done = 0, n = 0; done < bytes; done += n) {
      n = std::min(bytes - done, kPiece);
      std::memcpy(l.forward + done, from + done, n);
      std::memcpy(l.out + done, from + done, n);
    }
  }
}

}  // namespace

void land(const Landing& l) {
  if (l.sources.size() == 1) {
    copy_on(l);
  } else if (l.store == Store::streamed) {
    fold_streamed(l);
  } else if (l.forward) {
    fold_cached(l);
  } else {
    reduce(l.type, l.op, l.out, l.sources, l.count);
  }
  if (l.store == Store::streamed) stream_end();
}

}  // namespace ddl
