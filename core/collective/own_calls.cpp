#include "core/collective/own_calls.hpp"

namespace ddl {

OwnCalls::Note OwnCalls::note_of(const Call& call, Fingerprint fingerprint, const WireFormat& wire) {
  return {call.count, call.whole,        call.collective, fingerprint,  call.root,
          call.type,  call.op,           call.kind,       wire.of,      wire.as,
          wire.where, call.lengths != 0, call.pairwise,   call.is_part, static_cast<bool>(call.own)};
}

std::optional<OwnCalls::Known> OwnCalls::find(Number number) const {
  if (number >= end_ || number + kKnown < end_) return std::nullopt;
  const Note& one = calls_[number];
  Call call{nullptr, nullptr, one.count, one.type, one.op, one.collective, 0, one.kind, one.root, one.whole};
  call.lengths = one.has_lengths;
  call.is_part = one.is_part;
  if (one.is_own) call.own.combine = [](void*, const void*, void*, Elements) {};
  return Known{one.fingerprint, title_of(call, {one.wire_of, one.wire_as, one.wire_where}), one.is_pairwise};
}

}  // namespace ddl
