#include "core/stream/host_work.hpp"

#include <algorithm>

#include "core/base/clock.hpp"

namespace ddl {

using Scale = StreamCall::Scale;

bool is_copy(const StreamCall& call, Rank me) {
  return call.kind == Kind::send && call.root == me && call.out != 0;
}

std::string HostWork::operator()(const HostCall& what, const StagedChunk& chunk) {
  const StreamCall& call = what.call;
  if (is_copy(call, me_)) {
    std::copy(chunk.in.begin(), chunk.in.end(), chunk.out.begin());
    return {};
  }
  const void* in = chunk.in.data();
  void* out = chunk.out.data();
  DType type = call.type;
  const Elements in_count = chunk.in.size() / size_of(type), out_count = chunk.out.size() / size_of(type);
  if (call.scale != Scale::none && is_half(type)) {
    wide_in_.resize(in_count);
    wide_out_.resize(out_count);
    widen(type, wide_in_.data(), in, in_count);
    in = wide_in_.data();
    out = wide_out_.data();
    type = DType::float32;
  }
  if (call.scale == Scale::times_scalar) {
    scaled_.resize(in_count * size_of(type));
    multiply_all(what, chunk.offset / size_of(call.type), type, in, in_count);
    in = scaled_.data();
  }
  Call one{
      in,        out,        chunk.bytes / size_of(call.type),     type, call.op, call.name, now(), call.kind,
      call.root, call.count, static_cast<std::uint8_t>(call.scale)};
  one.lengths = what.lengths;
  if (std::string problem = run_(one, what.wire); !problem.empty()) return problem;
  if (call.scale == Scale::average) divide(type, out, out_count, ranks_);
  if (type != call.type) narrow(call.type, chunk.out.data(), wide_out_.data(), out_count);
  return {};
}

// Each of several by its own factor, those of `count` elements from `first` on.
void HostWork::multiply_all(const HostCall& what, Elements first, DType type, const void* in,
                            Elements count) {
  auto multiply_some = [&](Elements at, Elements n, const Scalar& scalar) {
    const Scalar factor = type == what.call.type ? scalar : widened(what.call.type, scalar);
    multiply(type, scaled_.data() + at * size_of(type),
             static_cast<const std::byte*>(in) + at * size_of(type), n, factor);
  };
  if (what.shares.empty()) return multiply_some(0, count, what.call.scalar);
  Elements begin = 0;
  for (const HostCall::Share& share : what.shares) {
    const Elements from = std::max(begin, first), to = std::min(begin + share.room, first + count);
    if (from < to) multiply_some(from - first, to - from, share.scalar);
    begin += share.room;
  }
}

}  // namespace ddl
