// The calls of a session that go on while the program computes, and the host copies of buffers in device
// memory. Thread safety: all members of OutstandingCalls.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/collective/call.hpp"
#include "core/collective/completion.hpp"
#include "core/device/device_memory.hpp"

namespace ddl {

class Communicator;

/// Host copies of the buffers of a call.
struct Staged {
  HostCopy memory;         // empty: the engine has the program's own buffers
  std::size_t result = 0;  // where in it the output lies,
  Bytes result_bytes = 0;  // and how much of that the call makes here
};

/// A call under way, with host copies of its buffers where these are device memory.
struct SessionCall : Completion {
  Call asked{};
  Staged staged;
  std::atomic<void*> owner = nullptr;      // the caller's name for it
  Communicator* communicator = nullptr;    // of a call with an owner
  std::atomic<bool> is_under_way = false;  // the owner has not been told of its end
};

/// Brings the input that rank `me` of `ranks` has in device memory to the host, and makes the call one on
/// host memory. Error when that fails.
void fetch(Call& call, Rank me, Rank ranks, Staged& staged);
/// Brings the result back. Error when that fails.
void bring_back(const Call& asked, const Staged& staged);

class OutstandingCalls {
 public:
  SessionCall& take(void* owner, Communicator& communicator);
  /// In two steps: one that nobody has, and the next call of it.
  SessionCall& make_ready();
  static void take(SessionCall& call, void* owner, Communicator& communicator);
  /// Its owner is told by the caller, unless that has been done: then false.
  static bool take_over(SessionCall& call);
  /// Takes over any; null: there is none left.
  SessionCall* any();
  /// After its end has been told; or of a call that never ends, as the engine has failed.
  void give_back(SessionCall& call);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<SessionCall>> calls_;  // all ever made
  std::vector<SessionCall*> idle_;
};

}  // namespace ddl
