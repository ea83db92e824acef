#include "core/collective/call.hpp"

#include <fmt/format.h>

namespace ddl {

// An all-reduce adds nothing for its kind, so that it costs nothing.
Fingerprint compute_fingerprint(const Call& call) {
  Op op = computes(call.kind) ? call.op : Op::sum;
  const Elements count = call.pairwise ? 0 : call.count;
  std::uint64_t x =
      count * 1024 + static_cast<std::uint64_t>(call.type) * 32 + static_cast<std::uint64_t>(op);
  if (call.kind != Kind::all_reduce) {
    Kind kind = is_between_two(call.kind) ? Kind::send : call.kind;  // its two ends are one call
    std::uint64_t root = has_root(kind) ? static_cast<std::uint64_t>(call.root) + 1 : 0;
    x ^= (root * kKinds + static_cast<std::uint64_t>(kind)) * 0xd6e8feb86659fd93ull;
  }
  x ^= (call.whole + (static_cast<std::uint64_t>(call.variant) << 56)) * 0xbf58476d1ce4e5b9ull;
  x ^= call.lengths;
  x *= 0x9e3779b97f4a7c15ull;
  return static_cast<Fingerprint>(x ^ (x >> 32));
}

Fingerprint fingerprint_of(const Call& call, const WireFormat& wire) {
  if (wire.is_exact()) return fingerprint_of(call);
  const auto way = static_cast<Fingerprint>(wire.as) + kWireTypes * static_cast<Fingerprint>(wire.where);
  return fingerprint_of(call) ^ way * 0x9e3779b9u;
}

std::string describe(const Call& call, const WireFormat& wire) {
  std::string text = fmt::format("{} of {}{} {}", name_of(call.kind), call.lengths ? "at most " : "",
                                 call.whole ? call.whole : call.count, name_of(call.type));
  if (computes(call.kind))
    text += fmt::format(", {}", call.own ? "an operation of the program's own" : name_of(call.op));
  if (!wire.is_exact()) text += ", " + describe(wire);
  if (call.is_part && *call.collective) text += fmt::format(", in {}", call.collective);
  if (!has_root(call.kind) && !is_between_two(call.kind)) return text;
  bool from = call.kind == Kind::broadcast || call.kind == Kind::scatter || call.kind == Kind::receive;
  return text + fmt::format(" {} rank {}", from ? "from" : "to", call.root);
}

std::string title_of(const Call& call, const WireFormat& wire) {
  const std::string text = describe(call, wire);
  return call.is_part || !*call.collective ? text : fmt::format("{} ({})", call.collective, text);
}

}  // namespace ddl
