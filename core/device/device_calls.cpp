#include "core/device/device_calls.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/partition.hpp"

namespace ddl {
namespace {

// As flags compare, that many steps are reached: more than can be enqueued by a call that is under way.
constexpr std::uint32_t kFarAhead = 1u << 30;

}  // namespace

struct DeviceCalls::Chunk {
  Bytes offset, bytes;
  std::uint64_t of_call;  // the number of the call whose first chunk this is, else 0

  // The piece that one rank reduces.
  std::pair<Bytes, Bytes> slice(std::size_t rank, std::size_t ranks) const {
    Bytes most = round_up(divide_up(bytes, ranks), kSliceUnit);
    Bytes begin = std::min(bytes, rank * most);
    return {begin, std::min(bytes - begin, most)};
  }
};

DeviceCalls::DeviceCalls(const cuda::Driver& driver, cuda::Context context, const ReduceKernels* kernels,
                         Layout layout)
    : driver_(driver),
      context_(context),
      kernels_(kernels),
      me_(layout.me),
      windows_(std::move(layout.windows)),
      bytes_(layout.bytes / kSliceUnit * kSliceUnit),
      first_value_(layout.first_value),
      step_(layout.first_value) {
  if (ranks() > 1) {
    for (std::size_t line = 0; line < ranks() + 2; ++line)
      new (flag(me_, line).at) std::uint32_t(first_value_);
    agreed_ = flag(me_, ranks());
    passed_ = flag(me_, ranks() + 1);
  }
  cuda::CurrentContext current(driver_, context_);
  cuda::Result result = current.result();
  if (result == cuda::kSuccess) result = driver_.event_create(&last_, cuda::kEventNoTiming);
  if (result != cuda::kSuccess) throw Error("CUDA refuses an event: " + cuda::describe(driver_, result));
}

DeviceCalls::~DeviceCalls() {
  cuda::CurrentContext current(driver_, context_);
  if (current.result() == cuda::kSuccess) driver_.event_destroy(last_);
}

Flag DeviceCalls::flag(std::size_t owner, std::size_t line) const {
  const DeviceWindow& window = windows_[owner];
  return {reinterpret_cast<std::uint32_t*>(window.flags + line * kFlagStride),
          window.flags_on_device + line * kFlagStride};
}

// ---- the program's side ----

Submitted DeviceCalls::submit(const DeviceReduction& call, cuda::Stream stream,
                              const std::function<void()>& announce) {
  std::lock_guard lock(mutex_);
  if (closed_) return Submitted::kFailed;
  cuda::CurrentContext current(driver_, context_);
  if (!fine(current.result(), "its context")) return Submitted::kFailed;
  int capture = cuda::kCaptureNone;
  if (!fine(cuda::capture_status(driver_, stream, capture), "the stream")) return Submitted::kFailed;
  if (Submitted how = what_captures(capture); how != Submitted::kEnqueued) return how;
  if (ranks() == 1) {
    bool well = call.in == call.out ||
                fine(driver_.copy_on_device_async(call.out, call.in, call.count * size_of(call.type), stream),
                     "a copy");
    return well ? Submitted::kEnqueued : Submitted::kFailed;
  }
  // The steps of the call before are waited for, wherever they were: flags only count up in one order.
  if (submitted_ > 0 && !fine(driver_.stream_wait_event(stream, last_, 0), "an event"))
    return Submitted::kFailed;
  ++submitted_;
  announce();
  return enqueue(call, stream) ? Submitted::kEnqueued : Submitted::kFailed;
}

bool DeviceCalls::enqueue(const DeviceReduction& call, cuda::Stream stream) {
  const Bytes all = call.count * size_of(call.type);
  bool well = true;
  for (Bytes offset = 0; well && offset < all; offset += bytes_)
    well =
        enqueue_chunk(call, {offset, std::min(bytes_, all - offset), offset == 0 ? submitted() : 0}, stream);
  // Also where it broke off: what is on the stream by now goes on once it is let go.
  auto number = first_value_ + static_cast<std::uint32_t>(submitted());
  well &=
      fine(driver_.stream_write_value(stream, passed_.on_device, number, cuda::kWriteValueDefault), "a flag");
  return fine(driver_.event_record(last_, stream), "an event") && well;
}

bool DeviceCalls::enqueue_chunk(const DeviceReduction& call, const Chunk& chunk, cuda::Stream stream) {
  const cuda::DevicePointer own = windows_[me_].memory;
  ++step_;
  if (!fine(driver_.copy_on_device_async(own, call.in + chunk.offset, chunk.bytes, stream), "a copy") ||
      !raise_at_all(stream))
    return false;
  auto agreed = first_value_ + static_cast<std::uint32_t>(chunk.of_call);
  if (chunk.of_call &&
      !fine(driver_.stream_wait_value(stream, agreed_.on_device, agreed, cuda::kWaitValueGreaterOrEqual),
            "a flag"))
    return false;
  if (!wait_for_all(stream) || !reduce_slice(call, chunk, stream)) return false;
  ++step_;
  return raise_at_all(stream) && wait_for_all(stream) &&
         fine(driver_.copy_on_device_async(call.out + chunk.offset, own, chunk.bytes, stream), "a copy");
}

bool DeviceCalls::reduce_slice(const DeviceReduction& call, const Chunk& chunk, cuda::Stream stream) {
  auto [begin, bytes] = chunk.slice(me_, ranks());
  if (bytes == 0) return true;
  std::vector<cuda::DevicePointer> pieces;
  for (const DeviceWindow& window : windows_) pieces.push_back(window.memory + begin);
  return fine(kernels_->launch(call.type, call.op, pieces, pieces, bytes / size_of(call.type), stream),
              "a kernel");
}

bool DeviceCalls::raise_at_all(cuda::Stream stream) {
  for (std::size_t rank = 0; rank < ranks(); ++rank)
    if (rank != me_ &&
        !fine(driver_.stream_write_value(stream, flag(rank, me_).on_device, step_, cuda::kWriteValueDefault),
              "a flag"))
      return false;
  return true;
}

bool DeviceCalls::wait_for_all(cuda::Stream stream) {
  for (std::size_t rank = 0; rank < ranks(); ++rank)
    if (rank != me_ && !fine(driver_.stream_wait_value(stream, flag(me_, rank).on_device, step_,
                                                       cuda::kWaitValueGreaterOrEqual),
                             "a flag"))
      return false;
  return true;
}

bool DeviceCalls::fine(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return true;
  closed_ = true;
  if (failure_.empty())
    failure_ = "CUDA refuses " + std::string(what) + " of a collective: " + cuda::describe(driver_, result);
  return false;
}

// ---- the other side ----

std::uint64_t DeviceCalls::passed() const {
  if (ranks() == 1) return submitted();
  const std::uint32_t value = passed_.get();  // first: it is behind what is submitted then
  const std::uint64_t all = submitted();
  return all - (first_value_ + static_cast<std::uint32_t>(all) - value);
}

void DeviceCalls::agree(std::uint64_t number) {
  if (!closed_) agreed_.set(first_value_ + static_cast<std::uint32_t>(number));
}

void DeviceCalls::let_go() {
  closed_ = true;
  if (ranks() == 1) return;
  for (std::size_t rank = 0; rank < ranks(); ++rank) flag(me_, rank).set(step_ + kFarAhead);
  agreed_.set(first_value_ + static_cast<std::uint32_t>(submitted()) + kFarAhead);
}

bool DeviceCalls::is_done() const { return passed() == submitted() && !closed_; }

std::string DeviceCalls::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace ddl
