#include "core/session/outstanding.hpp"

#include <utility>

#include "core/base/error.hpp"

namespace ddl {
namespace {

void copy_device(void* to, const void* from, Bytes bytes) {
  if (!copy_device_memory(to, from, bytes)) throw Error("cannot copy a buffer between device and host");
}

}  // namespace

void fetch(Call& call, Rank me, Rank ranks, Staged& staged) {
  staged.memory = {};
  if (!is_device_memory(call.in, call.out)) return;
  const auto* in = static_cast<const std::byte*>(call.in);
  auto* out = static_cast<std::byte*>(call.out);
  const Bytes in_bytes = static_cast<Bytes>(blocks_in(call.task(), me, ranks)) * call.bytes();
  const Bytes out_bytes = static_cast<Bytes>(blocks_out(call.task(), me, ranks)) * call.bytes();
  auto lies_in = [](const std::byte* what, const std::byte* from, Bytes bytes) {
    return what >= from && what < from + bytes;
  };
  // In place, the smaller one is part of the larger one.
  std::size_t in_at = 0, out_at = 0, all = in_bytes + out_bytes;
  if (in_bytes > 0 && lies_in(in, out, out_bytes))
    in_at = static_cast<std::size_t>(in - out), all = out_bytes;
  else if (out_bytes > 0 && lies_in(out, in, in_bytes))
    out_at = static_cast<std::size_t>(out - in), all = in_bytes;
  else
    out_at = in_bytes;
  staged.memory = HostCopy(all, call.in, call.out);
  staged.result = out_at;
  staged.result_bytes = out_bytes;
  if (in_bytes > 0) copy_device(staged.memory.data() + in_at, in, in_bytes);
  call.in = staged.memory.data() + in_at;
  call.out = staged.memory.data() + out_at;
}

void bring_back(const Call& asked, const Staged& staged) {
  if (!staged.memory.empty() && staged.result_bytes > 0)
    copy_device(asked.out, staged.memory.data() + staged.result, staged.result_bytes);
}

SessionCall& OutstandingCalls::take(void* owner, Communicator& communicator) {
  SessionCall& call = make_ready();
  take(call, owner, communicator);
  return call;
}

SessionCall& OutstandingCalls::make_ready() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    calls_.push_back(std::make_unique<SessionCall>());
    calls_.back()->ask_for_notice();
    idle_.reserve(calls_.size());
    idle_.push_back(calls_.back().get());
  }
  SessionCall& call = *idle_.back();
  idle_.pop_back();
  return call;
}

void OutstandingCalls::take(SessionCall& call, void* owner, Communicator& communicator) {
  call.owner.store(owner, std::memory_order_relaxed);
  call.communicator = &communicator;
  call.is_under_way.store(true, std::memory_order_release);
}

bool OutstandingCalls::take_over(SessionCall& call) { return call.is_under_way.exchange(false); }

void OutstandingCalls::give_back(SessionCall& call) {
  std::lock_guard lock(mutex_);
  call.staged = {};
  call.is_under_way = false;
  if (call.done()) idle_.push_back(&call);  // else the engine still knows it
}

SessionCall* OutstandingCalls::any() {
  std::lock_guard lock(mutex_);
  for (auto& call : calls_)
    if (take_over(*call)) return call.get();
  return nullptr;
}

}  // namespace ddl
