// All-reduces ordered on CUDA streams and done by the device: the ranks of one host, each in a process or
// thread of its own, see each other's staging on the GPU and flags in pinned host memory (a Window each). A
// call is cut into chunks of half the staging, which alternate between its halves; for each, a rank's stream
// does
//
//   copy the input to the own staging | raise a flag at all | wait for the flags of all |
//   kernel: all stagings, reduced in rank order, into the output
//
// so that all ranks compute the same bits. Streams wait by stream memory operations, no kernel spins: ranks
// that share a GPU are given it in turn. A flag of chunk n also says that its rank is done with chunk n-1, so
// that a half is free again when the other one has been waited for. After its last chunk a stream tells all
// that it reads no staging any more, by the last kernel: a rank may go when it has heard that.
//
// What it costs: a rank moves (3 + p) N bytes of device memory for N of data: N read and N written by the
// copy, N of each of p stagings read and N written by the kernel; p ranks on one GPU p times that at its
// memory's bandwidth; and one meeting per chunk, in which the GPU changes from each process to the next. Such
// a change takes 150 us on an H200 (6 us with MPS), as long as 600 MB of memory traffic: more bytes with
// fewer meetings win until there are many ranks. (Reducing a share each and collecting the shares moves 6 N,
// with two meetings.)
//
// The rules: all ranks submit the same calls in the same order; somebody agree()s to each once all ranks are
// known to make it, until which its stream waits, and let_go()es what was submitted when one does not. Who
// submits may be kept waiting, by a full queue or a driver that launches no kernel before its turn
// (CUDA_LAUNCH_BLOCKING, debuggers): for the very call that is to be agreed to. So it is announced before
// anything of it is enqueued, and what the other side does takes no lock that is held meanwhile. Thread
// safety: all but construction and destruction. Ownership: nothing that it is given.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/cuda_driver.hpp"
#include "core/device/flag.hpp"
#include "core/device/flag_steps.hpp"
#include "core/device/reduce_kernels.hpp"
#include "core/device/staged_call.hpp"

namespace ddl {

/// What a rank shows the others, as this rank sees it.
struct DeviceWindow {
  cuda::DevicePointer memory = 0;  // aligned to kUnit
  std::byte* flags = nullptr;      // kFlagBytes, pinned
  cuda::DevicePointer flags_on_device = 0;
};

struct DeviceReduction {
  cuda::DevicePointer in = 0, out = 0;
  Elements count = 0;
  DType type = DType::float32;
  DeviceOp op = DeviceOp::sum;
};

class DeviceCalls {
 public:
  /// Flags from each rank, one that all agree and one that the stream has passed.
  static constexpr Bytes kFlagBytes = (kernels::kMostBuffers + 2) * kFlagStride;
  static constexpr Bytes kUnit = 256;  // which all elements divide

  struct Layout {
    std::size_t me = 0;
    std::vector<DeviceWindow> windows;  // of all ranks, at most kMostBuffers; one rank needs none
    Bytes bytes = 0;                    // of the memory of each: at least two units
    unsigned raiser = 0;                // of this rank, see RaisedAfterwards
    std::uint32_t first_value = 1;      // for tests of flags that wrap
  };
  /// Clears the own flags: the others must not submit before.
  DeviceCalls(const cuda::Driver& driver, cuda::Context context, const ReduceKernels* kernels, Layout layout);
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  /// Enqueues one call on `stream` and returns; calls are numbered 1, 2, ... After a failure no more are
  /// taken. `announce` is called first, for those that have to be agreed to, in the order of their numbers.
  Submitted submit(
      const DeviceReduction& call, cuda::Stream stream, const std::function<void()>& announce = [] {});
  std::uint64_t submitted() const { return submitted_; }

  /// All ranks make the calls up to this one. By the same thread as let_go().
  void agree(std::uint64_t number);
  /// How many calls are done.
  std::uint64_t passed() const;
  /// No more calls, and the streams go on without results. To be called again and again until all have
  /// passed: other ranks may still put flags back.
  void let_go();

  /// All calls are done, as all ranks made them: nobody will read the own staging or raise a flag here any
  /// more.
  bool is_done() const;
  /// The own streams are; what is left is up to others.
  bool is_waiting_for_others() const { return passed() == submitted() && !closed_ && !is_done(); }

  /// What CUDA refused; "" when nothing.
  std::string failure() const;

 private:
  bool enqueue(const DeviceReduction& call, cuda::Stream stream);
  bool enqueue_chunk(const DeviceReduction& call, Bytes offset, Bytes bytes, cuda::Stream stream);
  bool follow_last_call(cuda::Stream stream);
  bool meet(std::uint64_t of_call, cuda::Stream stream);
  bool reduce(const DeviceReduction& call, Bytes offset, Bytes bytes, cuda::Stream stream);
  bool leave(cuda::Stream stream);
  bool fine(cuda::Result result, const char* what);
  Flag line(std::size_t owner, std::size_t number) const;
  Flag here(std::size_t owner, std::size_t rank) const { return line(owner, rank); }
  Flag gone(std::size_t owner, std::size_t rank) const;
  cuda::DevicePointer half(std::size_t rank) const {
    return windows_[rank].memory + step_ % 2 * chunk_bytes_;
  }
  std::uint32_t value_of(std::uint64_t call) const { return first_value_ + static_cast<std::uint32_t>(call); }
  std::size_t ranks() const { return windows_.size(); }

  const cuda::Driver& driver_;
  const cuda::Context context_;
  const ReduceKernels* const kernels_;
  const std::size_t me_;
  const std::vector<DeviceWindow> windows_;
  const Bytes chunk_bytes_;
  const std::uint32_t first_value_;
  const unsigned raiser_;
  Flag agreed_, passed_;
  // What is raised when the own part of a chunk is in staging, and when the last one is reduced.
  std::vector<cuda::DevicePointer> all_here_, all_gone_;
  // That of the latest call, by the driver's number, which is never used again.
  unsigned long long last_stream_ = 0;
  FlagSteps steps_;
  std::vector<cuda::DevicePointer> halves_;

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint32_t> step_;  // the value of the latest chunk's flags
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;  // of what follows; held while a call is enqueued
  std::string failure_;
};

}  // namespace ddl
