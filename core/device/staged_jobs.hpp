// What the worker of StagedCalls has to do: chunks of calls in the order of their submission, each with a
// slot of pinned memory, and notes. Values; thread safety: none.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/recycler.hpp"
#include "core/device/flag.hpp"
#include "core/device/staged_call.hpp"

namespace ddl {

/// The pinned memory of one chunk, and the flags between its stream and the worker.
struct StagedSlot {
  std::byte *in = nullptr, *out = nullptr;
  Flag ready, done;
  cuda::Event passed = nullptr;  // the stream that had it last is done with it
  bool used = false;
};

/// A call, cut into `count` pieces of so many bytes of each block.
struct StagedCall {
  StagedBuffers buffers;
  Bytes piece = 0;
  StagedWork work;
  std::uint64_t first_ticket = 0, count = 0;

  StagedChunk chunk(std::uint64_t index, const StagedSlot& slot) const {
    Bytes offset = index * piece, bytes = std::min(piece, buffers.block_bytes - offset);
    return {{slot.in, bytes * buffers.in_blocks}, {slot.out, bytes * buffers.out_blocks}, offset, bytes};
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
