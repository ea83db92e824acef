#include "core/stream/host_work.hpp"

#include <algorithm>

#include "core/base/clock.hpp"

namespace ddl {

using Scale = StreamCall::Scale;

bool is_copy(const StreamCall& call, Rank me) {
  return call.kind == Kind::send && call.root == me && call.out != 0;
}

std::string HostWork::operator()(const StreamCall& call, const StagedChunk& chunk) {
  if (is_copy(call, me_)) {
    std::copy(chunk.in.begin(), chunk.in.end(), chunk.out.begin());
    return {};
  }
  const void* in = chunk.in.data();
  void* out = chunk.out.data();
  DType type = call.type;
  Scalar scalar = call.scalar;
  const Elements in_count = chunk.in.size() / size_of(type), out_count = chunk.out.size() / size_of(type);
  if (call.scale != Scale::none && is_half(type)) {
    wide_in_.resize(in_count);
    wide_out_.resize(out_count);
    widen(type, wide_in_.data(), in, in_count);
    in = wide_in_.data();
    out = wide_out_.data();
    scalar = widened(type, scalar);
    type = DType::float32;
  }
  if (call.scale == Scale::times_scalar) {
    scaled_.resize(in_count * size_of(type));
    multiply(type, scaled_.data(), in, in_count, scalar);
    in = scaled_.data();
  }
  Elements count = chunk.bytes / size_of(call.type);
  std::string problem = run_({in, out, count, type, call.op, call.name, now(), call.kind, call.root,
                              call.count, static_cast<std::uint8_t>(call.scale)},
                             call.type);
  if (!problem.empty()) return problem;
  if (call.scale == Scale::average) divide(type, out, out_count, ranks_);
  if (type != call.type) narrow(call.type, chunk.out.data(), wide_out_.data(), out_count);
  return {};
}

}  // namespace ddl
