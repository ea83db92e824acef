// Background: something that starts operations of its own whenever an engine is moved, and ends completions
// of which several may stand for one operation. EngineTurn: what it may do then.
//
// One rule: nothing here waits for another rank. Thread safety: none; the engine's lock is held.
#pragma once

#include <array>
#include <functional>

#include "core/collective/communicator.hpp"

namespace ddl {

class Engine;

/// The engine's lock is held as long as there is one, except in work().
class EngineTurn {
 public:
  explicit EngineTurn(Engine& engine) : engine_(engine) {}

  /// Queues a call on a communicator of the engine; it may be done when this returns.
  void start(Communicator& communicator, const Call& call, PreparedPlan& plan, Completion& completion);
  /// That completion is under way until fulfil(). It is moved while the program computes, and where it asks
  /// for notice gets it.
  void promise(Completion& completion, const Call& call, bool hears_wire);
  void fulfil(Completion& completion);
  /// Work on memory alone, without the lock. The engine may have failed when it is over.
  void work(const std::function<void()>& body);
  bool failed() const;

 private:
  Engine& engine_;
};

/// The oldest call of the program's that something is under way for.
struct ProgramCall {
  const Call* call = nullptr;                        // null: there is none
  CommId comm = 0;                                   // the program's communicator
  std::array<const Communicator*, 2> communicators;  // on which it is done
};

class Background {
 public:
  virtual ~Background() = default;
  /// Does what can be done now; true when that was anything. Not called while another thread is in it.
  virtual bool advance(EngineTurn& turn) = 0;
  /// Whether there is nothing that advance() will ever have to do.
  virtual bool idle() const = 0;
  /// What of the program it is here for, for when that takes long.
  virtual ProgramCall oldest() const = 0;
  /// Moves what was counted since the last time to `into`.
  virtual void collect(Counters& into) = 0;
};

}  // namespace ddl
