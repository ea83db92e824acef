// Engine: one rank's communicators and transports, and the loop that moves them.
//
// Every entry takes the one lock for a moment and never while it waits, so that threads on different
// communicators and the helper thread of nonblocking calls share the work: whoever holds the lock advances
// everything. Thread safety: all public members.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/collective/communicator.hpp"

namespace ddl {

/// How this rank waits, see Engine::wait: pauses, then yields, then sleeps. A sleeper is woken by a peer's
/// doorbell and by the wire, where that can (Transport::wake_fd), else it looks again soon. Only who waits
/// for the wire yields: within a host that would hand the core to strangers for milliseconds.
struct Waiting {
  int spins = 2000;  // pauses on a communicator of one host; 0 where ranks outnumber cores
  // On a communicator that spans hosts, for calls of up to 1 MiB: they bridge the gaps between small messages
  // (4 hosts x 2, up to 16 KiB: a hundred are 7 to 10 % slower). Sleeping at once instead takes half the
  // processor time of 16 MiB over 1 Gbit/s (4 hosts x 2: 112 of 208 ms).
  int wire_yields = 1000;
  int deaf_yields = 5000;                      // likewise, over a wire that wakes nobody
  Nanoseconds longest_sleep = 1'000'000;       // so that the original library is still moved
  Nanoseconds stall_warning = 60'000'000'000;  // a wait that is longer is reported; 0: never
  std::function<void()> guest = [] {};         // moves the original library; called by waiting threads only
};

class Engine : private Inbox {
 public:
  Engine(Fabrics fabrics, Waiting waiting);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Staging for a communicator, see SharedMemoryTransport::take_area. An area that no communicator takes is
  /// given back.
  std::optional<StagingArea> reserve(Bytes wanted, Bytes least, std::uint32_t sharers);
  void give_back(StagingArea area);
  /// The communicator lives until destroy().
  Communicator& create(CommunicatorSpec spec);
  void destroy(Communicator& communicator);

  /// Moves what was counted since the last time to the arguments, see Communicator::collect.
  void collect(Counters& into, std::vector<Bytes>& wire);

  /// See Communicator.
  PreparedPlan& prepare(Communicator& communicator, const PlanChoice& choice, Bytes bytes);
  void learn(Communicator& communicator, const Machine& machine);
  void time_dimensions(Communicator& communicator);

  /// Starts a call; never blocks. The operation is given back with finish() after it is done. Without a plan
  /// it is done by the one that the cost model chooses.
  /// Error, alike on all members, where there is none, see Communicator::plan_for.
  Operation* start(Communicator& communicator, const Call& call, PreparedPlan* plan = nullptr);
  /// The same for any number of sends and receives, which are under way together; the others of the
  /// communicator need not know of them. The n-th send to a rank meets the n-th receive from here there.
  /// Nobody sends to itself.
  std::vector<Operation*> start_together(Communicator& communicator, std::span<const Call> calls);
  /// As start(), wait() and finish(): of a blocking call.
  void run(Communicator& communicator, const Call& call, PreparedPlan* plan = nullptr);
  /// start() of a blocking call: null when it is done and finished already, see Communicator::run().
  Operation* start_or_run(Communicator& communicator, const Call& call, PreparedPlan* plan = nullptr);
  /// Advances everything once; true when the operation is done (or the engine has failed).
  bool test(Operation* operation);
  /// Waits until it is done.
  void wait(Communicator& communicator, Operation* operation);
  void finish(Communicator& communicator, Operation* operation);
  /// Advances everything once unless another thread is at it; true when something moved.
  bool progress();

  /// A helper thread advances the operations under way while the program computes: on until the last release.
  void hold_helper();
  void release_helper();

  /// Why nothing works any more; "" as long as all is well. Once set it stays.
  std::string failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void fail(const std::string& why);

 private:
  void deliver(const Header& header, const View& view) override;
  std::byte* place_for(const Header& header) override;
  void peer_failed(Rank peer, const std::string& why) override;
  bool progress_locked();
  void take_up(Communicator& communicator);
  bool look(Operation* operation, bool& moved);
  bool sleep(Operation* operation, Nanoseconds at_most);
  void warn_of_stall(const Communicator& communicator, Nanoseconds waited);
  void help();
  bool progress_or_fail();
  void fail_locked(const std::string& why);

  Fabrics fabrics_;
  Waiting waiting_;
  mutable std::mutex mutex_;
  std::unordered_map<CommId, std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Communicator>>
      buried_;                         // freed after a failure: a transport may still read their operations
  std::vector<Communicator*> active_;  // those with operations under way
  Counters counted_;                   // what communicators that are gone have counted
  std::vector<Bytes> wire_;            // likewise
  std::vector<Early> early_;           // for communicators that this rank has not created yet
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint32_t> calls_{0};  // blocking ones

  std::thread helper_;
  std::mutex helper_mutex_;
  std::condition_variable helper_wakes_;
  std::atomic<int> helper_holds_{0};
  bool helper_ends_ = false;
};

}  // namespace ddl
