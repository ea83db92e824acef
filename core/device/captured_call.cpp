#include "core/device/captured_call.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <vector>

#include "core/base/partition.hpp"
#include "core/device/pinned_pool.hpp"

namespace ddl {
namespace {

// Of one call's pinned memory: this much for the input, and for the output.
constexpr Bytes kLargestArea = Bytes{4} << 20;
constexpr Bytes kPieceUnit = 256;  // every element size divides it

struct Captured {
  StagedBuffers buffers;
  StagedWork work;
  pinned_pool::Block pinned;
  Bytes area, piece;

  StagedChunk chunk(Bytes offset) const {
    const Bytes bytes = std::min(piece, buffers.block_bytes - offset);
    return {{pinned.host, bytes * buffers.in_blocks},
            {pinned.host + area, bytes * buffers.out_blocks},
            offset,
            bytes};
  }
};

// The same on all ranks: from what they have in common alone. Powers of two, so that the pool has them again.
Bytes area_for(Bytes block_bytes, std::uint32_t blocks) {
  const Bytes wanted = std::min(kLargestArea, round_up(block_bytes, kPieceUnit) * blocks);
  return std::bit_ceil(std::max(wanted, kPieceUnit * blocks));
}

}  // namespace

struct CapturedCalls::State {
  const cuda::Driver& driver;
  const cuda::Context context;
  std::mutex mutex;  // of what follows, and held by who works
  bool closed = false, failed = false;
  std::vector<std::shared_ptr<const Captured>> calls;
  mutable std::mutex failure_mutex;
  std::string failure;

  bool fine(cuda::Result result, const char* what) {
    if (result == cuda::kSuccess) return true;
    std::lock_guard lock(failure_mutex);
    if (failure.empty())
      failure = "CUDA refuses " + std::string(what) +
                " of a collective in a graph: " + cuda::describe(driver, result);
    return false;
  }
};

namespace {

// What a host function is called with. Never freed: nobody says when a graph is gone.
template <class State>
struct Node {
  std::shared_ptr<State> state;
  std::shared_ptr<const Captured> call;
  Bytes offset;
};

template <class State>
void work_on(void* data) {
  auto& node = *static_cast<Node<State>*>(data);
  std::lock_guard lock(node.state->mutex);
  if (node.state->closed || node.state->failed) return;
  try {
    node.state->failed = !node.call->work(node.call->chunk(node.offset)).empty();
  } catch (...) {
    node.state->failed = true;  // who works says what is wrong; CUDA's thread can take no exception
  }
}

}  // namespace

CapturedCalls::CapturedCalls(const cuda::Driver& driver, cuda::Context context)
    : state_(new State{driver, context, {}, false, false, {}, {}, {}}) {}

CapturedCalls::~CapturedCalls() {
  std::lock_guard lock(state_->mutex);
  state_->closed = true;
  for (const auto& call : state_->calls) pinned_pool::give_back(state_->context, call->pinned);
  state_->calls.clear();
}

Submitted CapturedCalls::capture(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work) {
  State& s = *state_;
  const std::uint32_t blocks = std::max({buffers.in_blocks, buffers.out_blocks, buffers.blocks_anywhere, 1u});
  auto call = std::make_shared<Captured>(Captured{buffers, std::move(work), {}, 0, 0});
  call->area = area_for(buffers.block_bytes, blocks);
  call->piece = call->area / blocks / kPieceUnit * kPieceUnit;
  cuda::CurrentContext current(s.driver, s.context);
  if (!s.fine(current.result(), "its context") ||
      !s.fine(pinned_pool::take(s.driver, s.context, 2 * call->area, call->pinned), "pinned memory"))
    return Submitted::kFailed;
  {
    std::lock_guard lock(s.mutex);
    s.calls.push_back(call);
  }
  for (Bytes offset = 0; offset < buffers.block_bytes; offset += call->piece) {
    const StagedChunk chunk = call->chunk(offset);
    for (std::uint32_t block = 0; block < buffers.in_blocks; ++block)
      if (!s.fine(s.driver.copy_to_host_async(call->pinned.host + block * chunk.bytes,
                                              buffers.in + block * buffers.block_bytes + offset, chunk.bytes,
                                              stream),
                  "a copy from the device"))
        return Submitted::kFailed;
    auto* node = new Node<State>{state_, call, offset};
    if (!s.fine(s.driver.launch_host_function(stream, work_on<State>, node), "a host function"))
      return Submitted::kFailed;
    for (std::uint32_t block = 0; block < buffers.out_blocks; ++block)
      if (!s.fine(s.driver.copy_to_device_async(buffers.out + block * buffers.block_bytes + offset,
                                                chunk.out.data() + block * chunk.bytes, chunk.bytes, stream),
                  "a copy to the device"))
        return Submitted::kFailed;
  }
  return Submitted::kEnqueued;
}

std::string CapturedCalls::failure() const {
  std::lock_guard lock(state_->failure_mutex);
  return state_->failure;
}

}  // namespace ddl
