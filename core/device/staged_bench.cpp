#include "core/device/staged_bench.hpp"

#include <new>

#include "core/base/partition.hpp"

namespace ddl {

// First the flags of all slots, two lines each; then the areas.
Bytes bytes_of(std::uint32_t slots, Bytes area_bytes) { return slots * 2 * (kFlagStride + area_bytes); }

Bytes area_of(Bytes bytes, std::uint32_t slots) {
  return (bytes / slots / 2 - kFlagStride) / kPieceUnit * kPieceUnit;
}

StagedBench own_bench(const pinned_pool::Block& pinned, std::uint32_t slots, std::uint64_t first_ticket) {
  StagedBench bench{area_of(pinned.bytes, slots), std::vector<StagedSlot>(slots), first_ticket};
  for (std::size_t i = 0; i < slots; ++i) {
    auto flag = [&](std::size_t line) {
      const Bytes at = (2 * i + line) * kFlagStride;
      return Flag{new (pinned.host + at) std::uint32_t(static_cast<std::uint32_t>(first_ticket - 1)),
                  pinned.device + at};
    };
    StagedSlot& slot = bench.slots[i];
    slot.in = pinned.host + 2 * (kFlagStride * slots + bench.area_bytes * i);
    slot.out = slot.in + bench.area_bytes;
    slot.ready = flag(0);
    slot.awaited = {slot.ready};
    slot.done = slot.raised = {flag(1)};
  }
  return bench;
}

// In each rank's memory first the flags, for each slot that of its stream and one of every rank's worker;
// then the areas.
StagedBench shared_bench(const SharedStaging& with, std::uint32_t slots) {
  const std::size_t ranks = with.of_rank.size();
  const Bytes flags = round_up(slots * (1 + ranks) * kFlagStride, kPieceUnit);
  StagedBench bench{(with.bytes - flags) / (2 * slots) / kPieceUnit * kPieceUnit,
                    std::vector<StagedSlot>(slots), 1};
  for (std::size_t i = 0; i < slots; ++i) {
    StagedSlot& slot = bench.slots[i];
    auto flag = [&](std::size_t of, std::size_t line) {
      const Bytes at = (i * (1 + ranks) + line) * kFlagStride;
      return Flag{reinterpret_cast<std::uint32_t*>(with.of_rank[of] + at),
                  of == with.me ? with.on_device + at : 0};
    };
    const Bytes in = flags + 2 * i * bench.area_bytes;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      slot.done.push_back(flag(with.me, 1 + rank));
      slot.awaited.push_back(flag(rank, 0));
      slot.raised.push_back(flag(rank, 1 + with.me));
      slot.ins.push_back(with.of_rank[rank] + in);
      slot.outs.push_back(with.of_rank[rank] + in + bench.area_bytes);
    }
    slot.ready = slot.awaited[with.me];
    slot.in = with.of_rank[with.me] + in;
    slot.out = slot.outs[with.me];
  }
  return bench;
}

}  // namespace ddl
