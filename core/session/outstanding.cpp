#include "core/session/outstanding.hpp"

#include "core/base/error.hpp"
#include "core/device/device_memory.hpp"

namespace ddl {
namespace {

void copy_device(void* to, const void* from, Bytes bytes) {
  if (!copy_device_memory(to, from, bytes)) throw Error("cannot copy a buffer between device and host");
}

}  // namespace

void fetch(Call& call, std::vector<std::byte>& staged) {
  if (!is_device_memory(call.in, call.out, call.began)) return;
  staged.resize(call.bytes());
  copy_device(staged.data(), call.in, call.bytes());
  call.in = call.out = staged.data();
}

void bring_back(const Call& asked, const std::vector<std::byte>& staged) {
  if (!staged.empty()) copy_device(asked.out, staged.data(), asked.bytes());
}

SessionCall& OutstandingCalls::take(void* owner) {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    calls_.push_back(std::make_unique<SessionCall>());
    calls_.back()->ask_for_notice();
    idle_.reserve(calls_.size());
    idle_.push_back(calls_.back().get());
  }
  SessionCall& call = *idle_.back();
  idle_.pop_back();
  call.owner = owner;
  call.is_under_way = true;
  return call;
}

void OutstandingCalls::give_back(SessionCall& call) {
  std::lock_guard lock(mutex_);
  call.is_under_way = false;
  if (call.done()) idle_.push_back(&call);  // else the engine still knows it
}

SessionCall* OutstandingCalls::any() {
  std::lock_guard lock(mutex_);
  for (auto& call : calls_)
    if (call->is_under_way) return call.get();
  return nullptr;
}

}  // namespace ddl
