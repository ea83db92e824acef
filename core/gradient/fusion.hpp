// Fusion: which all-reduces become one operation. Pure: ranks that know the same calls cut the same batches.
#pragma once

#include <span>
#include <vector>

#include "core/base/types.hpp"
#include "core/plan/wire_rule.hpp"

namespace ddl {

/// What calls have in common that may become one operation.
struct FusionClass {
  DType type = DType::uint8;
  Op op = Op::sum;
  WireFormat wire = {};      // decided by the size of each call itself
  std::uint8_t variant = 0;  // see Call
  friend bool operator==(const FusionClass&, const FusionClass&) = default;
};

/// When and what is fused; the same on all ranks.
struct FusionRule {
  Bytes threshold = 0;  // DDL_LAZY_BYTES; 0: nothing is
  Bytes largest_call = 0, largest_batch = 0;
  /// Whether a call of so many bytes waits for company.
  bool takes(Bytes bytes) const { return bytes > 0 && bytes < threshold && bytes <= largest_call; }
};
/// Batches at once: enough that the wire is busy while one begins and another ends; more of them would only
/// end later (4 hosts x 2, 1 Gbit/s, 2000 x 4 KiB in batches of 1 MiB: the first result after 52 ms, with
/// eight of them after 94).
inline constexpr int kBatchesUnderWay = 4;
FusionRule fusion_rule(Bytes threshold, bool spans_hosts);
/// Of calls that the host copies from a device and back, one after the other.
FusionRule staged_fusion_rule(Bytes threshold);

/// A call, as far as it matters here.
struct Part {
  FusionClass of;
  Elements count = 0;
  /// Elements it takes in a batch: where some share a scale, they share it with none of another call.
  Elements room() const { return of.wire.has_scales() ? round_up(count, of.wire.line()) : count; }
};

/// Calls cut into batches of one class each, of calls in their order. Batches are in the order of their first
/// calls.
struct Batches {
  std::vector<std::size_t> of;  // which one each call is in
  std::vector<Bytes> bytes;     // what each of them takes
};
/// None takes more than `largest` bytes, unless it is one call. Into places that are used again.
void cut_batches(std::span<const Part> parts, Bytes largest, Batches& into);
/// The same as the indices of each batch's calls.
std::vector<std::vector<std::size_t>> cut_batches(std::span<const Part> parts, Bytes largest);

}  // namespace ddl
