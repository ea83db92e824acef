// All-reduces ordered on CUDA streams and done by the device: the ranks of one host, each in a process or
// thread of its own, see each other's staging on the GPU and flags in pinned host memory (a Window each). A
// call is cut into chunks of the staging's size; for each, the stream of rank r does
//
//   copy the input to own staging | raise A at all | wait for A of all |
//   kernel: slice r of all stagings, reduced in rank order, into slice r of all stagings | raise B at all |
//   wait for B of all | copy own staging to the output
//
// so that each element is reduced by one rank and all have the same bits. Streams wait by stream memory
// operations, no kernel spins: ranks that share a GPU are given it in turn. When B of all ranks is there,
// nobody reads or writes this rank's staging any more: one buffer is enough, and a rank may go as soon as its
// stream is done.
//
// What it should cost (predicted, not measured): a rank moves 6 N bytes of device memory for N of data: N
// read and N written by the copy in, N/p read from and N/p written to each of p stagings by the kernel, N and
// N by the copy out; p ranks on one GPU 6 p N at its memory's bandwidth; and two hand-overs between ranks per
// chunk, each the GPU's change from one process to another. 256 MiB of 2 ranks: 3.2 GB, and 16 hand-overs
// with staging of 32 MiB.
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
#include "core/device/reduce_kernels.hpp"
#include "core/device/staged_call.hpp"

namespace ddl {

/// What a rank shows the others, as this rank sees it.
struct DeviceWindow {
  cuda::DevicePointer memory = 0;  // aligned to kSliceUnit
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
  static constexpr Bytes kSliceUnit = 256;

  struct Layout {
    std::size_t me = 0;
    std::vector<DeviceWindow> windows;  // of all ranks, at most kMostBuffers; one rank needs none
    Bytes bytes = 0;                    // of the memory of each: at least kSliceUnit per rank
    std::uint32_t first_value = 1;      // for tests of flags that wrap
  };
  /// Clears the own flags: the others must not submit before.
  DeviceCalls(const cuda::Driver& driver, cuda::Context context, const ReduceKernels* kernels, Layout layout);
  ~DeviceCalls();
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

  /// All calls are done, as all ranks made them: nobody will raise a flag here any more.
  bool is_done() const;

  /// What CUDA refused; "" when nothing.
  std::string failure() const;

 private:
  struct Chunk;
  bool enqueue(const DeviceReduction& call, cuda::Stream stream);
  bool enqueue_chunk(const DeviceReduction& call, const Chunk& chunk, cuda::Stream stream);
  bool reduce_slice(const DeviceReduction& call, const Chunk& chunk, cuda::Stream stream);
  bool raise_at_all(cuda::Stream stream);
  bool wait_for_all(cuda::Stream stream);
  bool fine(cuda::Result result, const char* what);
  Flag flag(std::size_t owner, std::size_t line) const;
  std::size_t ranks() const { return windows_.size(); }

  const cuda::Driver& driver_;
  const cuda::Context context_;
  const ReduceKernels* const kernels_;
  const std::size_t me_;
  const std::vector<DeviceWindow> windows_;
  const Bytes bytes_;
  const std::uint32_t first_value_;
  Flag agreed_, passed_;
  cuda::Event last_ = nullptr;  // the latest call is done: streams take turns

  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint32_t> step_;  // the value of the latest A or B
  std::atomic<bool> closed_{false};
  mutable std::mutex mutex_;  // of what follows; held while a call is enqueued
  std::string failure_;
};

}  // namespace ddl
