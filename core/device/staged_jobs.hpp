// What a worker of StagedCalls has to do: chunks of calls in the order of their submission, each with a
// slot of pinned memory, and notes. Values; thread safety: none.
#pragma once

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "core/base/recycler.hpp"
#include "core/device/staged_bench.hpp"
#include "core/device/staged_call.hpp"

namespace ddl {

/// A call, cut into `count` pieces of so many bytes of each block.
struct StagedCall {
  StagedBuffers buffers;
  std::vector<StagedPiece> pieces;  // those of `buffers`
  Bytes piece = 0;
  StagedWork work;
  StagedBench* bench = nullptr;
  std::uint64_t first_ticket = 0, count = 0;
  std::uint32_t workers = 1;           // of each chunk: each does a part
  std::atomic<std::uint64_t> left{0};  // parts that are not done

  StagedChunk chunk(std::uint64_t index, const StagedSlot& slot) const {
    Bytes offset = index * piece, bytes = std::min(piece, buffers.block_bytes - offset);
    return {{slot.in, bytes * buffers.in_blocks},
            {slot.out, bytes * buffers.out_blocks},
            offset,
            bytes,
            0,
            slot.ins,
            slot.outs,
            workers};
  }

  /// What a chunk is on the device, stretch by stretch, until `body` returns false: of the input and of the
  /// output where it begins, where that is in the chunk, and its bytes.
  template <class Body>
  bool each_input(const StagedChunk& chunk, Body body) const {
    return each_stretch(chunk, &StagedPiece::in, buffers.in, buffers.in_blocks, body);
  }
  template <class Body>
  bool each_output(const StagedChunk& chunk, Body body) const {
    return each_stretch(chunk, &StagedPiece::out, buffers.out, buffers.out_blocks, body);
  }

  /// What no piece brings is zero.
  void fill_gaps(std::uint64_t index, const StagedSlot& slot) const {
    const StagedChunk here = chunk(index, slot);
    Bytes begin = 0;
    for (const StagedPiece& one : pieces) {
      const Bytes from = std::max(begin + one.bytes, here.offset);
      const Bytes to = std::min(begin + one.room, here.offset + here.bytes);
      if (from < to) std::fill_n(slot.in + (from - here.offset), to - from, std::byte{});
      begin += one.room;
    }
  }

 private:
  template <class Body>
  bool each_stretch(const StagedChunk& chunk, cuda::DevicePointer StagedPiece::*where,
                    cuda::DevicePointer blocks, std::uint32_t count_of_blocks, Body body) const {
    Bytes begin = 0;
    for (const StagedPiece& one : pieces) {
      const Bytes from = std::max(begin, chunk.offset);
      const Bytes to = std::min(begin + one.bytes, chunk.offset + chunk.bytes);
      if (from < to && !body(one.*where + (from - begin), from - chunk.offset, to - from)) return false;
      begin += one.room;
    }
    for (std::uint32_t block = 0; pieces.empty() && block < count_of_blocks; ++block)
      if (!body(blocks + block * buffers.block_bytes + chunk.offset, block * chunk.bytes, chunk.bytes))
        return false;
    return true;
  }
};

using StagedCallPool = Recycler<StagedCall>;

/// One piece of a call, or a note.
struct StagedJob {
  StagedCallPool::Entry* call = nullptr;  // null: a note
  std::uint64_t index = 0;
  StagedNote note = {};
};

/// First in, first out, in places that are used again.
class StagedJobs {
 public:
  bool empty() const { return first_ == jobs_.size(); }
  void push(StagedJob job) {
    if (jobs_.size() == jobs_.capacity() && 2 * first_ > jobs_.size()) {
      jobs_.erase(jobs_.begin(), jobs_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    jobs_.push_back(std::move(job));
  }
  StagedJob pop() {
    StagedJob job = std::move(jobs_[first_++]);
    if (empty()) {
      jobs_.clear();
      first_ = 0;
    }
    return job;
  }

 private:
  std::vector<StagedJob> jobs_;
  std::size_t first_ = 0;
};

}  // namespace ddl
