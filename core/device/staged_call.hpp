// Collective calls ordered on a CUDA stream and done by the host. A call is cut into chunks; for each, the
// stream copies the input into pinned memory, raises a flag, waits for another flag and copies the result
// back, while a worker thread of ours waits for the first flag, does the work and raises the second:
//
//   stream:  D2H 0 | ready 0 | D2H 1 | ready 1 | wait done 0 | H2D 0 | D2H 2 | ready 2 | wait done 1 | H2D 1
//   ... worker:                    work on 0 ......................| work on 1 ..........| work on 2 ...
//
// so that copying overlaps the work, and the caller returns as soon as this is enqueued. There may be several
// workers, which take the chunks of a call in turn, or on shared memory a part of each. The number of pinned
// chunks bounds what is in flight: where another stream still has a chunk, the stream waits for it, never the
// caller. The worker makes no CUDA calls, because one may wait for all streams, and so for the worker itself.
//
// The rules: a worker does its chunks of all calls in the order of submit(); all ranks that meet in
// the work must submit in the same order with the same options, workers and number of blocks, and so have
// equal chunks on equal workers. One object serves one communicator (calls of two may come in different
// orders on different ranks). After the first failure, of any kind, nothing is done any more: streams go on
// with undefined results. Thread safety: all but construction and destruction. Ownership: the worker, and the
// pinned memory, which goes to a pool afterwards.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/device/cuda_driver.hpp"

namespace ddl {

/// How a stream waits for a flag. Host functions are for devices without stream memory operations: one that
/// waits may keep all others of the process waiting, so only with one rank per process, and each call's
/// stream waits for the call before; and flags are raised without them. Calls of several communicators may
/// still wait for each other, unless all ranks make them in one order.
enum class FlagOrdering { kStreamMemoryOperations, kHostFunctions };

struct StagedOptions {
  Bytes chunk_bytes = Bytes{4} << 20;  // pinned, for all blocks of a chunk together; twice: input and output
  std::uint32_t chunks = 3;            // at least 1; from 2 on copies overlap the work
  std::uint32_t most_blocks = 1;       // of any call: the number of ranks
  FlagOrdering ordering = FlagOrdering::kStreamMemoryOperations;
  // Of the destructor, for streams that are not done with pinned memory.
  Nanoseconds patience = 2'000'000'000;
  std::uint64_t first_ticket = 1;  // for tests of the wrap of 32-bit flags
  // Asked by a worker that waits for other ranks in the call of that name: why there is no sense in waiting
  // on, "" as long as there is.
  std::function<std::string(const char* name)> overdue = {};
  // What else the first worker looks after: called by it again and again while it has nothing better to do
  // and this returns true, once more after every job, and to the end of the last. Empty: nothing.
  std::function<bool()> meanwhile = {};
};

/// Device memory that is a part of a block: so many bytes of it, of which the first are there.
struct StagedPiece {
  cuda::DevicePointer in = 0, out = 0;
  Bytes bytes = 0, room = 0;
};

/// What a call reads and writes on the device: blocks of equal size, one behind the other. An all-reduce has
/// one and one, an all-gather one and as many as ranks, a send one and none. Several all-reduces that are
/// done as one have one and one that are made of pieces.
struct StagedBuffers {
  cuda::DevicePointer in = 0, out = 0;
  Bytes block_bytes = 0;
  std::uint32_t in_blocks = 1, out_blocks = 1;
  std::uint32_t blocks_anywhere = 0;  // the most that any rank has in this call; 0: what this one has
  // Where the one block is, part by part, in place of `in` and `out`; what is not there is zero to the work.
  // Valid during submit().
  std::span<const StagedPiece> pieces = {};
  // Other streams whose turn it is to be when the call begins, and that wait for its end. Likewise.
  std::span<const cuda::Stream> along = {};
  const char* name = "";  // for people
};

/// The same piece of every block, packed one behind the other in pinned memory.
struct StagedChunk {
  std::span<const std::byte> in;  // in_blocks * bytes
  std::span<std::byte> out;       // out_blocks * bytes
  Bytes offset = 0, bytes = 0;    // of the piece in its block
  std::uint32_t worker = 0;       // who works on it
  // Of a call on shared memory: the chunk's input and output of every rank, and how many workers there are:
  // each writes its part of this rank's share of all outputs.
  std::span<const std::byte* const> ins = {};
  std::span<std::byte* const> outs = {};
  std::uint32_t workers = 1;
};

/// Memory of the ranks of one host that all of them see, and the streams of each see their own. Each rank's
/// workers do its share of every chunk when the inputs of all are there.
struct SharedStaging {
  std::size_t me = 0;
  std::vector<std::byte*> of_rank;    // of equal sizes, all 0 before anybody uses it
  cuda::DevicePointer on_device = 0;  // the own
  Bytes bytes = 0;
};

/// The work on one chunk. Returns nothing, or what went wrong. Called on a worker thread, and where there are
/// several on several at once.
using StagedWork = std::function<std::string(const StagedChunk&)>;

/// Something to do in the order of the calls, with no stream. Likewise, by the first worker, who has the
/// first chunk of each.
using StagedNote = std::function<std::string()>;

enum class Submitted {
  kEnqueued,   // or nothing to do
  kCapturing,  // the stream is being captured into a graph: nothing was enqueued, see captured_call.hpp
  kUnusable,   // by a capture that went wrong, or by another stream's: nothing was enqueued
  kFailed      // see failure()
};

/// What a stream's cuda::capture_status means for a call: kEnqueued where there is no capture.
inline Submitted what_captures(int status) {
  if (status == cuda::kCaptureNone) return Submitted::kEnqueued;
  return status == cuda::kCaptureActive ? Submitted::kCapturing : Submitted::kUnusable;
}

class StagedCalls {
 public:
  /// Pins the memory; throws Error where that fails. `driver` must outlive this.
  StagedCalls(const cuda::Driver& driver, cuda::Context context, const StagedOptions& options);
  /// Waits until the worker has done all that was submitted: abort() first where that may never be. Waits for
  /// no other streams.
  ~StagedCalls();
  StagedCalls(const StagedCalls&) = delete;
  StagedCalls& operator=(const StagedCalls&) = delete;

  /// Before the first call, `workers` instead of one. The pinned memory is cut into more chunks then: each
  /// worker has one, and as many are being copied.
  void use_workers(std::uint32_t workers);
  std::uint32_t workers() const;

  /// Likewise: from now on calls can be submitted on shared memory, which all ranks do alike. Must outlive
  /// this.
  void share(const SharedStaging& with);

  /// Enqueues one call on `stream` (0: the legacy default stream) and returns.
  Submitted submit(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work);
  /// Likewise on shared memory, of one block and no pieces. The first worker does `meet` before the call.
  Submitted submit_shared(const StagedBuffers& buffers, cuda::Stream stream, StagedNote meet,
                          StagedWork work);

  /// Has the first worker do this behind what was submitted before, unless something has failed by then.
  void post(StagedNote note);

  /// Empty, or the first thing that went wrong.
  std::string failure() const;

  /// Lets streams go on without results. The caller interrupts the work that is being done, if any.
  void abort(const std::string& why);

  /// What the destructor does: nothing is submitted afterwards. False when a stream has not come to an end,
  /// which may still use pinned and shared memory.
  bool finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddl
