#include "core/device/device_calls.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/base/error.hpp"

namespace ddl {
namespace {

// As flags compare, that many steps are reached: more than can be enqueued by a call that is under way.
constexpr std::uint32_t kFarAhead = 1u << 30;

}  // namespace

DeviceCalls::DeviceCalls(const cuda::Driver& driver, cuda::Context context, const ReduceKernels* kernels,
                         Layout layout)
    : driver_(driver),
      context_(context),
      kernels_(kernels),
      me_(layout.me),
      windows_(std::move(layout.windows)),
      chunk_bytes_(layout.bytes / 2 / kUnit * kUnit),
      first_value_(layout.first_value),
      raiser_(layout.raiser),
      step_(layout.first_value) {
  if (ranks() == 1) return;
  for (std::size_t number = 0; number < ranks() + 2; ++number) {
    new (line(me_, number).at) std::uint32_t(first_value_);
    new (gone(me_, number).at) std::uint32_t(first_value_);
  }
  agreed_ = line(me_, ranks());
  passed_ = line(me_, ranks() + 1);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    if (rank == me_) continue;
    all_here_.push_back(here(rank, me_).on_device);
    all_gone_.push_back(gone(rank, me_).on_device);
  }
  all_gone_.push_back(passed_.on_device);
}

Flag DeviceCalls::line(std::size_t owner, std::size_t number) const {
  const DeviceWindow& window = windows_[owner];
  return {reinterpret_cast<std::uint32_t*>(window.flags + number * kFlagStride),
          window.flags_on_device + number * kFlagStride};
}

// On the same line: it is raised by the same rank.
Flag DeviceCalls::gone(std::size_t owner, std::size_t rank) const {
  const Flag here = line(owner, rank);
  return {here.at + 1, here.on_device + sizeof(std::uint32_t)};
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
  if (!follow_last_call(stream)) return Submitted::kFailed;
  ++submitted_;
  announce();
  return enqueue(call, stream) ? Submitted::kEnqueued : Submitted::kFailed;
}

// Wherever it was: flags only count up in one order, and the halves are used in turn.
bool DeviceCalls::follow_last_call(cuda::Stream stream) {
  unsigned long long id = 0;
  const bool known = driver_.stream_id && driver_.stream_id(stream, &id) == cuda::kSuccess;
  const bool is_behind = submitted_ == 0 || (known && id == last_stream_);
  last_stream_ = id;
  if (is_behind) return true;
  steps_.await(passed_, value_of(submitted_));
  return fine(steps_.enqueue(driver_, stream), "a flag");
}

bool DeviceCalls::enqueue(const DeviceReduction& call, cuda::Stream stream) {
  const Bytes all = call.count * size_of(call.type);
  if (all == 0) return leave(stream);
  bool well = true;
  for (Bytes offset = 0; well && offset < all; offset += chunk_bytes_)
    well = enqueue_chunk(call, offset, std::min(chunk_bytes_, all - offset), stream);
  // Where it broke off: what is on the stream by now goes on once it is let go.
  if (!well) leave(stream);
  return well;
}

bool DeviceCalls::enqueue_chunk(const DeviceReduction& call, Bytes offset, Bytes bytes, cuda::Stream stream) {
  ++step_;
  return fine(driver_.copy_on_device_async(half(me_), call.in + offset, bytes, stream), "a copy") &&
         meet(offset == 0 ? submitted() : 0, stream) && reduce(call, offset, bytes, stream);
}

// `of_call`: the number of the call whose first chunk this is, else 0.
bool DeviceCalls::meet(std::uint64_t of_call, cuda::Stream stream) {
  steps_.raise(all_here_, step_);
  if (of_call) steps_.await(agreed_, value_of(of_call));
  for (std::size_t rank = 0; rank < ranks(); ++rank)
    if (rank != me_) steps_.await(here(me_, rank), step_);
  return fine(steps_.enqueue(driver_, stream), "a flag");
}

// After the last chunk it leaves.
bool DeviceCalls::reduce(const DeviceReduction& call, Bytes offset, Bytes bytes, cuda::Stream stream) {
  const cuda::DevicePointer out = call.out + offset;
  RaisedAfterwards raised{{}, value_of(submitted_), raiser_};
  if (offset + bytes == call.count * size_of(call.type)) raised.flags = all_gone_;
  halves_.clear();
  for (std::size_t rank = 0; rank < ranks(); ++rank) halves_.push_back(half(rank));
  return fine(
      kernels_->launch(call.type, call.op, halves_, {&out, 1}, bytes / size_of(call.type), stream, raised),
      "a kernel");
}

bool DeviceCalls::leave(cuda::Stream stream) {
  steps_.raise(all_gone_, value_of(submitted_));
  return fine(steps_.enqueue(driver_, stream), "a flag");
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
  return all - (value_of(all) - value);
}

void DeviceCalls::agree(std::uint64_t number) {
  if (!closed_) agreed_.set(value_of(number));
}

void DeviceCalls::let_go() {
  closed_ = true;
  if (ranks() == 1) return;
  for (std::size_t rank = 0; rank < ranks(); ++rank) here(me_, rank).set(step_ + kFarAhead);
  agreed_.set(value_of(submitted()) + kFarAhead);
}

bool DeviceCalls::is_done() const {
  bool all_are_gone = passed() == submitted() && !closed_;
  for (std::size_t rank = 0; ranks() > 1 && rank < ranks(); ++rank)
    all_are_gone &= rank == me_ || gone(me_, rank).reached(value_of(submitted()));
  return all_are_gone;
}

std::string DeviceCalls::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace ddl
