#include "core/collective/reduce_copy.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/cache_hints.hpp"
#include "core/base/partition.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr Bytes kPiece = 8 << 10;  // stays in the first-level cache between its making and its copying
// A first piece that ends with a line of the output, so that all others have only whole ones.
Bytes to_line_end(const std::byte* out) {
  return kStreamedPiece - reinterpret_cast<std::uintptr_t>(out) % kCacheLine;
}

void step_on(const ReduceCopy& l, Bytes bytes) {
  for (const void*& source : l.sources) source = static_cast<const std::byte*>(source) + bytes;
}

// None of these is inlined: each has pieces on the stack, and a call of a few bytes may have 16 KiB of that.
[[gnu::noinline]] void fold_cached(const ReduceCopy& l) {
  alignas(kCacheLine) std::array<std::byte, kPiece> piece;
  Bytes element = size_of(l.type), done = 0;
  for (Elements left = l.count, n = 0; left > 0; left -= n) {
    n = std::min<Elements>(left, kPiece / element);
    std::byte* out = l.out ? l.out + done : piece.data();
    reduce(l.type, l.op, out, l.sources, n);
    // A plain copy and not a second store of the fold: it takes the lines, which the peers have read last,
    // without asking for their old content (64 KiB of two ranks: 14 against 20 us).
    std::memcpy(l.forward + done, out, n * element);
    step_on(l, n * element);
    done += n * element;
  }
}

[[gnu::noinline]] void fold_streamed(const ReduceCopy& l) {
  alignas(kCacheLine) std::array<std::byte, kStreamedPiece> piece;
  Bytes element = size_of(l.type), done = 0;
  Bytes size = to_line_end(l.out ? l.out : l.forward) / element * element;
  for (Elements left = l.count, n = 0; left > 0; left -= n) {
    n = std::min<Elements>(left, std::exchange(size, kStreamedPiece) / element);
    reduce(l.type, l.op, piece.data(), l.sources, n);
    step_on(l, n * element);
    const std::byte* next = l.forward ? l.forward + done + n * element : nullptr;
    for (const void* source : l.sources)
      if (source != next) prefetch(source, kStreamedPiece);
    if (l.forward) {
      prefetch(next, kStreamedPiece);
      if (l.out)
        stream_and_keep(l.out + done, l.forward + done, piece.data(), n * element);
      else
        std::memcpy(l.forward + done, piece.data(), n * element);
    } else {
      stream(l.out + done, piece.data(), n * element);
    }
    done += n * element;
  }
}

// By pieces that are combined aside, because `out` may be one of the sources: the later ones into the last,
// so that each is the left operand.
[[gnu::noinline]] void fold_own(const ReduceCopy& l) {
  alignas(kCacheLine) std::array<std::byte, kPiece> piece;
  const Bytes element = size_of(l.type);
  Bytes done = 0;
  for (Elements left = l.count, n = 0; left > 0; left -= n) {
    n = std::min<Elements>(left, kPiece / element);
    std::memcpy(piece.data(), l.sources.back(), n * element);
    for (std::size_t i = l.sources.size() - 1; i-- > 0;)
      l.own.combine(l.own.context, l.sources[i], piece.data(), n);
    step_on(l, n * element);
    if (l.out) std::memcpy(l.out + done, piece.data(), n * element);
    if (l.forward) std::memcpy(l.forward + done, piece.data(), n * element);
    done += n * element;
  }
}

void stream_ahead(std::byte* to, const std::byte* from, Bytes bytes) {
  Bytes size = to_line_end(to);
  for (Bytes done = 0, n = 0; done < bytes; done += n) {
    n = std::min(bytes - done, std::exchange(size, kStreamedPiece));
    prefetch(from + done + n, kStreamedPiece);
    stream(to + done, from + done, n);
  }
}

void copy_on(const ReduceCopy& l) {
  auto* from = static_cast<const std::byte*>(l.sources[0]);
  Bytes bytes = l.count * size_of(l.type);
  if (from == l.out) {  // it arrived at its place
    if (l.forward) std::memcpy(l.forward, from, bytes);
  } else if (l.store == Store::streamed) {
    l.forward ? stream_and_keep(l.out, l.forward, from, bytes) : stream_ahead(l.out, from, bytes);
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

// One piece after the other, so that all but the sources and the results stays in the first-level cache.
class NarrowFold {
 public:
  explicit NarrowFold(const ReduceCopy& l)
      : l_(l), wire_(l.narrowing->wire), streams_(l.store == Store::streamed), element_(size_of(l.type)) {}

  void run() {
    // Scales are those of lines from the first element on, so that there whole ones are left together.
    const Bytes most = streams_ ? kStreamedPiece : kPiece;
    Bytes size = streams_ && !wire_.has_scales() ? to_line_end(l_.out) / element_ * element_ : most;
    for (Elements n = 0; done_ < l_.count; done_ += n) {
      n = std::min<Elements>(l_.count - done_, std::exchange(size, most) / element_);
      if (streams_) fetch_next(n);
      land(n);
    }
  }

 private:
  // Past the cache a piece is made aside.
  void land(Elements n) {
    const Narrowing& narrowing = *l_.narrowing;
    std::byte* out = l_.out + done_ * element_;
    std::byte* to = streams_ ? sum_.data() : out;
    const std::byte* made = fold(n, to);
    if (narrowing.rounds || narrowing.travels) {
      std::byte* travels = narrowing.travels ? narrowing.travels + wire_.bytes(done_) : wide_.data();
      narrow(wire_, travels, made, n);
      if (narrowing.rounds) widen(wire_, to, travels, n), made = to;
    }
    if (l_.forward) std::memcpy(l_.forward + done_ * element_, made, n * element_);
    if (made == out) return;
    streams_ ? stream(out, made, n * element_) : void(std::memcpy(out, made, n * element_));
  }

  const std::byte* value_of(std::size_t source, Elements at) const {
    return static_cast<const std::byte*>(l_.sources[source]) +
           (l_.narrowing->is_narrow[source] ? wire_.bytes(at) : at * element_);
  }

  void fetch_next(Elements n) const {
    const Elements next = done_ + n, end = std::min(l_.count, next + n);
    for (std::size_t s = 0; s < l_.sources.size(); ++s)
      prefetch(value_of(s, next), static_cast<Bytes>(value_of(s, end) - value_of(s, next)));
    if (std::byte* travels = l_.narrowing->travels)
      prefetch(travels + wire_.bytes(next), wire_.bytes(end) - wire_.bytes(next));
  }

  // In the order of the sources, one at a time. Where the result is: what is last goes straight to its place.
  const std::byte* fold(Elements n, std::byte* result) {
    const std::byte* sum = nullptr;
    for (std::size_t s = 0; s < l_.sources.size(); ++s) {
      const bool is_narrow = l_.narrowing->is_narrow[s], is_last = s + 1 == l_.sources.size();
      const std::byte* value = value_of(s, done_);
      std::byte* to = is_last ? result : sum_.data();
      if (is_narrow) {
        std::byte* wide = s > 0 ? wide_.data() : to;
        widen(wire_, wide, value, n);
        value = wide;
      }
      if (s > 0) {
        const std::array<const void*, 2> both = {sum, value};
        reduce(l_.type, l_.op, to, both, n);
        value = to;
      }
      sum = value;
    }
    return sum;
  }

  const ReduceCopy& l_;
  const WireFormat wire_;
  const bool streams_;
  const Bytes element_;
  Elements done_ = 0;
  alignas(kCacheLine) std::array<std::byte, kPiece> sum_, wide_;
};

[[gnu::noinline]] void fold_narrow(const ReduceCopy& l) { NarrowFold(l).run(); }

}  // namespace

void stage(const WireFormat& wire, std::byte* block, const std::byte* from, Elements count, Store store) {
  const Elements piece = store == Store::streamed ? kStreamedPiece / size_of(wire.of) : count;
  for (Elements done = 0, n = 0; done < count; done += n) {
    n = std::min(count - done, piece);
    const std::byte* own = from + done * size_of(wire.of);
    if (done + n < count) prefetch(own + n * size_of(wire.of), n * size_of(wire.of));
    if (done + n < count) prefetch(block + wire.bytes(done + n), wire.bytes(n));
    narrow(wire, block + wire.bytes(done), own, n);
  }
}

void apply(const ReduceCopy& l) {
  if (l.narrowing) {
    fold_narrow(l);
  } else if (l.sources.size() == 1) {
    copy_on(l);
  } else if (l.own) {
    return fold_own(l);
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
