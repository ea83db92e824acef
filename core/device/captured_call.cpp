#include "core/device/captured_call.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "core/base/partition.hpp"
#include "core/device/pinned_pool.hpp"
#include "core/device/staged_bench.hpp"

namespace ddl {
namespace {

// Of one call's pinned memory: this much for the input, and for the output.
constexpr Bytes kLargestArea = Bytes{4} << 20;

struct Captured {
  StagedBuffers buffers;
  StagedWork work;
  pinned_pool::Block pinned;
  Bytes area, piece;

  bool is_last(Bytes offset) const { return offset + piece >= buffers.block_bytes; }
  StagedChunk chunk(Bytes offset) const {
    const Bytes bytes = std::min(piece, buffers.block_bytes - offset);
    return {{pinned.host, bytes * buffers.in_blocks},
            {pinned.host + area, bytes * buffers.out_blocks},
            offset,
            bytes};
  }
};

// The same on all ranks: from what they have in common alone.
Bytes area_for(Bytes block_bytes, std::uint32_t blocks) {
  const Bytes wanted = std::min(kLargestArea, round_up(block_bytes, kPieceUnit) * blocks);
  return std::max(wanted, kPieceUnit * blocks);
}

// The last call of each capture of this process: an event, recorded in it, of the context of the call's
// stream, which may be another one from call to call. Captures are numbered upwards, and nobody says when one
// ends: the oldest are forgotten.
class Chain {
 public:
  // Before a call, and behind it.
  cuda::Result wait(const cuda::Driver& driver, cuda::Stream stream) {
    unsigned long long id = 0;
    std::lock_guard lock(mutex_);
    cuda::Result result = id_of(driver, stream, id);
    auto found = captures_.find(id);
    return result != cuda::kSuccess || found == captures_.end() || !found->second.last
               ? result
               : driver.stream_wait_event(stream, found->second.last, 0);
  }
  cuda::Result extend(const cuda::Driver& driver, cuda::Context context, cuda::Stream stream) {
    unsigned long long id = 0;
    cuda::Event event = nullptr;
    std::lock_guard lock(mutex_);
    cuda::Result result = id_of(driver, stream, id);
    if (result == cuda::kSuccess) result = event_of(driver, id, context, event);
    if (result == cuda::kSuccess) result = driver.event_record(event, stream);
    if (result == cuda::kSuccess) captures_[id].last = event;
    return result;
  }

 private:
  static constexpr std::size_t kMostCaptures = 64;
  struct Capture {
    std::map<cuda::Context, cuda::Event> events;
    cuda::Event last = nullptr;
  };

  static cuda::Result id_of(const cuda::Driver& driver, cuda::Stream stream, unsigned long long& id) {
    int status = cuda::kCaptureNone;
    return driver.capture_info(stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
  }
  // A new one is of the current context, which is `context`.
  cuda::Result event_of(const cuda::Driver& driver, unsigned long long id, cuda::Context context,
                        cuda::Event& event) {
    auto capture = captures_.find(id);
    if (capture != captures_.end() && capture->second.events.count(context)) {
      event = capture->second.events[context];
      return cuda::kSuccess;
    }
    if (capture == captures_.end() && captures_.size() == kMostCaptures) {
      for (auto [of, forgotten] : captures_.begin()->second.events) driver.event_destroy(forgotten);
      captures_.erase(captures_.begin());
    }
    cuda::Result result = driver.event_create(&event, cuda::kEventNoTiming);
    if (result == cuda::kSuccess) captures_[id].events[context] = event;
    return result;
  }

  std::mutex mutex_;
  std::map<unsigned long long, Capture> captures_;
};

Chain& chain() {
  static Chain* the_chain = new Chain;  // outlives exit handlers of the program
  return *the_chain;
}

}  // namespace

struct CapturedCalls::State {
  State(const cuda::Driver& cuda_driver, cuda::Context cuda_context)
      : driver(cuda_driver), context(cuda_context) {}

  const cuda::Driver& driver;
  const cuda::Context context;

  std::mutex working;  // held by who works
  std::mutex mutex;    // of what follows
  std::condition_variable changed;
  bool closed = false, failed = false;
  int under_way = 0;  // calls that have begun
  std::string failure;

  // Of a call that has begun the rest is done after the end too, of others nothing.
  bool begin(bool is_first) {
    std::lock_guard lock(mutex);
    if (failed || (closed && (is_first || under_way == 0))) return false;
    under_way += is_first;
    return true;
  }
  void end(bool is_last, bool well) {
    std::lock_guard lock(mutex);
    failed |= !well;
    under_way -= is_last;
    changed.notify_all();
  }
  bool fine(cuda::Result result, const char* what) {
    if (result == cuda::kSuccess) return true;
    std::lock_guard lock(mutex);
    failure = "CUDA refuses " + std::string(what) +
              " of a collective in a graph: " + cuda::describe(driver, result);
    return false;
  }
};

namespace {

// What a host function is called with.
template <class State>
struct Node {
  std::shared_ptr<State> state;
  std::shared_ptr<const Captured> call;
  Bytes offset;
};

// For good: nobody says when a graph is gone.
void keep(std::shared_ptr<void> node) {
  static std::mutex mutex;
  static auto* all = new std::deque<std::shared_ptr<void>>;  // outlives exit handlers of the program
  std::lock_guard lock(mutex);
  all->push_back(std::move(node));
}

template <class State>
void work_on(void* data) {
  auto& node = *static_cast<Node<State>*>(data);
  std::lock_guard lock(node.state->working);
  if (!node.state->begin(node.offset == 0)) return;
  bool well = false;
  try {
    well = node.call->work(node.call->chunk(node.offset)).empty();
  } catch (...) {
    // Who works says what is wrong; CUDA's thread can take no exception.
  }
  node.state->end(node.call->is_last(node.offset), well);
}

}  // namespace

CapturedCalls::CapturedCalls(const cuda::Driver& driver, cuda::Context context)
    : state_(std::make_shared<State>(driver, context)) {}

CapturedCalls::~CapturedCalls() {
  std::unique_lock lock(state_->mutex);
  state_->closed = true;
  state_->changed.wait(lock, [this] { return state_->under_way == 0 || state_->failed; });
  lock.unlock();
  std::lock_guard until_nobody_works(state_->working);
}

Submitted CapturedCalls::capture(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work) {
  State& s = *state_;
  const std::uint32_t blocks = std::max({buffers.in_blocks, buffers.out_blocks, buffers.blocks_anywhere, 1u});
  auto call = std::make_shared<Captured>(Captured{buffers, std::move(work), {}, 0, 0});
  call->area = area_for(buffers.block_bytes, blocks);
  call->piece = call->area / blocks / kPieceUnit * kPieceUnit;
  cuda::CurrentContext current(s.driver, s.context);
  if (!s.fine(current.result(), "its context") ||
      !s.fine(pinned_pool::take(s.driver, s.context, 2 * call->area, call->pinned), "pinned memory") ||
      !s.fine(chain().wait(s.driver, stream), "an event"))
    return Submitted::kFailed;
  for (Bytes offset = 0; offset < buffers.block_bytes; offset += call->piece) {
    const StagedChunk chunk = call->chunk(offset);
    for (std::uint32_t block = 0; block < buffers.in_blocks; ++block)
      if (!s.fine(s.driver.copy_to_host_async(call->pinned.host + block * chunk.bytes,
                                              buffers.in + block * buffers.block_bytes + offset, chunk.bytes,
                                              stream),
                  "a copy from the device"))
        return Submitted::kFailed;
    auto node = std::make_shared<Node<State>>(Node<State>{state_, call, offset});
    if (!s.fine(s.driver.launch_host_function(stream, work_on<State>, node.get()), "a host function"))
      return Submitted::kFailed;
    keep(std::move(node));
    for (std::uint32_t block = 0; block < buffers.out_blocks; ++block)
      if (!s.fine(s.driver.copy_to_device_async(buffers.out + block * buffers.block_bytes + offset,
                                                chunk.out.data() + block * chunk.bytes, chunk.bytes, stream),
                  "a copy to the device"))
        return Submitted::kFailed;
  }
  return s.fine(chain().extend(s.driver, s.context, stream), "an event") ? Submitted::kEnqueued
                                                                         : Submitted::kFailed;
}

std::string CapturedCalls::failure() const {
  std::lock_guard lock(state_->mutex);
  return state_->failure;
}

}  // namespace ddl
