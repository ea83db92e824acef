// Completion: what the maker of a call holds: whether it is done. It belongs to the caller and stands for an
// operation, or for something that was done at once.
//
// One rule: it stays where it is until done(), or until the engine has failed.
// Thread safety: done() by any thread; everything else by the engine, whose lock is held.
#pragma once

#include <atomic>

#include "core/plan/plan_store.hpp"

namespace ddl {

class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Before the call starts: where the operation, if it takes one, leaves what it has observed.
  void observe(Observed* into) { observed_ = into; }
  bool is_observed() const { return observed_ != nullptr; }
  /// Before Engine::start(): if the call is not done when that returns, Engine::next_done() names it once
  /// when it is.
  void ask_for_notice() { asks_for_notice_ = true; }

 private:
  friend class Communicator;
  friend class Engine;
  friend class EngineTurn;
  std::atomic<bool> done_{true};
  bool asks_for_notice_ = false, gets_notice_ = false;
  bool goes_on_ = false;  // the caller does not wait: the helper thread cares
  bool hears_wire_ = false;
  const char* timed_as_ = nullptr;  // the collective, see Shared::time; null: it is not
  Bytes bytes_ = 0;                 // of a block of the call
  Observed* observed_ = nullptr;
};

}  // namespace ddl
