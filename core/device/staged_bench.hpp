// The slots that the chunks of staged calls go through, and how pinned memory is cut into them. Values;
// thread safety: none.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/types.hpp"
#include "core/device/flag.hpp"
#include "core/device/pinned_pool.hpp"
#include "core/device/staged_call.hpp"

namespace ddl {

// Pieces are cut at multiples of this, which every element size divides.
inline constexpr Bytes kPieceUnit = 256;

/// The pinned memory of one chunk, and the flags between streams and workers.
struct StagedSlot {
  std::byte *in = nullptr, *out = nullptr;
  Flag ready;                    // raised by the stream
  std::vector<Flag> done;        // which it waits for: of the worker, or of one of each rank
  cuda::Event passed = nullptr;  // the stream that had it last is done with it
  bool used = false;
  std::uint32_t worked_on = 0;               // the last ticket of which this rank's share is done: as a Flag
  std::atomic<std::uint32_t> parts_done{0};  // of the chunk that is in it
  std::uint32_t worked_on_until() { return Flag{&worked_on}.get(); }

  // What the worker waits for, and what it raises; of all ranks where they see each other's slots, and then
  // what they have.
  std::vector<Flag> awaited, raised;
  std::vector<const std::byte*> ins = {};
  std::vector<std::byte*> outs = {};
};

/// Slots that are used in turn.
struct StagedBench {
  Bytes area_bytes = 0;  // of an input, or output
  std::vector<StagedSlot> slots;
  std::uint64_t next_ticket = 1;
  StagedSlot& slot(std::uint64_t ticket) { return slots[ticket % slots.size()]; }
};

/// Bytes that so many slots of one rank need with areas of so many, and the area that fits into so many
/// bytes.
Bytes bytes_of(std::uint32_t slots, Bytes area_bytes);
Bytes area_of(Bytes bytes, std::uint32_t slots);
/// Slots of one rank; its flags are one before the first ticket.
StagedBench own_bench(const pinned_pool::Block& pinned, std::uint32_t slots, std::uint64_t first_ticket);
/// Slots of all ranks, as the one sees them.
StagedBench shared_bench(const SharedStaging& with, std::uint32_t slots);

}  // namespace ddl
