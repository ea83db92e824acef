// Engine: one rank's communicators and transports, and the loop that moves them.
//
// Every entry takes the one lock for a moment, never while it waits and not for large reductions, so that
// threads on different communicators and the helper thread of nonblocking calls share the work: whoever holds
// the lock advances everything. Thread safety: all public members.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/arithmetic.hpp"
#include "core/collective/background.hpp"
#include "core/collective/communicator.hpp"
#include "core/collective/core_balance.hpp"
#include "core/trace/stall.hpp"

namespace ddl {

/// How this rank waits, see Engine::wait: pauses, then yields, then sleeps. A sleeper is woken by a peer's
/// doorbell and by the wire, where that can (Transport::wake_fd), else it looks again soon.
struct Waiting {
  int spins = 2000;  // pauses on a communicator of one host; 0 where ranks outnumber cores
  // There, after the pauses, so long: who sleeps leaves 10 to 50 us after the last rank has come (2 ranks, a
  // barrier, the other 50 us to 3 ms late; Open MPI, which never sleeps, 0.3 to 3 us). Not where nobody
  // would wait awake without us, and not once a yield has shown that somebody else wants the core. Where
  // ranks outnumber cores it is less.
  Nanoseconds yields_for = 0;
  // On a communicator that spans hosts, for calls of up to 1 MiB: they bridge the gaps between small messages
  // (4 hosts x 2, up to 16 KiB: a hundred are 7 to 10 % slower). Sleeping at once instead takes half the
  // processor time of 16 MiB over 1 Gbit/s (4 hosts x 2: 112 of 208 ms).
  int wire_yields = 1000;
  int yields_without_wake_fd = 5000;      // likewise, over a wire that wakes nobody
  Nanoseconds longest_sleep = 1'000'000;  // so that the original library is still moved
  // Who has found that another rank makes another call: until it is said without knowing which.
  Nanoseconds for_the_other = 250'000'000;
  std::function<void()> host_progress = [] {};  // moves the original library; called by waiting threads only
};

/// A call that has been under way for long, and that somebody waits for.
struct LongCall {
  CommId comm = 0;
  CallName name;             // that of the program's function
  std::uint64_t number = 0;  // see Call
  std::string text;          // see describe()
  Seq seq = 0;               // number of the engine's call on the communicator
  Nanoseconds began = 0;
  bool goes_on = false;         // while the program computes, see start()
  bool needs_all = false;       // nobody gets through it before all have come
  Rank source = -1, sink = -1;  // where all of it comes from, goes to; in the job, as those that follow
  std::vector<Rank> members;
  std::vector<Rank> waits_for;  // whose messages are missing, or have not been read, or who has yet to read
};

/// What came of a start.
enum class Started : std::uint8_t { done, under_way };

class Engine : private MessageHandler {
 public:
  Engine(Fabrics fabrics, Waiting waiting);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// The communicator lives until destroy(). No other communicator of the job has, or had, that identity.
  /// `known_as`: of the program's communicator that it belongs to, where that is another one; else 0.
  Communicator& create(CommId id, std::shared_ptr<PlanStore> plans, CommId known_as = 0);
  void destroy(Communicator& communicator);
  /// See Communicator.
  void time_dimensions(Communicator& communicator);

  /// Moves what was counted since the last time to the arguments: calls by plan, and what the plans of these
  /// calls hand to the wire, by rail.
  void collect(Counters& into, std::vector<WireBytes>& wire);

  /// Starts a call; never blocks. It may be done at once; else a helper thread moves it from now on while the
  /// program computes. Without a plan it is done by the one that the cost model chooses. Error, alike on all
  /// members, where there is none, see PlanStore::plan_for.
  Started start(Communicator& communicator, const Call& call, Completion& completion,
                PreparedPlan* plan = nullptr);
  /// The same of one that is ready to be made again, with these buffers. It stays in use until it is done, or
  /// let_go_of_brief_calls().
  Started start(Communicator& communicator, BriefCall& call, const void* in, void* out, std::uint64_t number,
                Completion& completion);
  /// No such call is in use any more.
  void let_go_of_brief_calls();
  /// Starts any number of sends and receives, which are under way together; the others of the communicator
  /// need not know of them. The n-th send to a rank meets the n-th receive from here there. Nobody sends to
  /// itself. The caller goes on to wait().
  void start_together(Communicator& communicator, std::span<const Call> calls, std::span<Completion> done);
  /// A blocking call from beginning to end.
  void run(Communicator& communicator, const Call& call, PreparedPlan* plan = nullptr,
           Observed* observed = nullptr);
  /// Likewise one that is a part of a program's call: count() counts that when it is done.
  void run_part(Communicator& communicator, Call call, PreparedPlan* plan = nullptr);
  void count(const Call& call, PreparedPlan& plan);
  /// The same of one that is ready to be made again, and has been told of its buffers.
  void run(Communicator& communicator, BriefCall& call);
  /// Likewise, on a communicator of one rank.
  void run_alone(Communicator& communicator, BriefCall& call, const void* in, void* out);
  /// Advances everything once; true when the call is done, or the engine has failed.
  bool test(const Completion& completion);
  /// Waits until it is done, or the engine has failed.
  void wait(Communicator& communicator, const Completion& completion);
  /// Advances everything once unless another thread is at it; true when something moved.
  bool progress();
  /// The same, for a waiting loop that is not ours: looks without the lock first where nothing that is under
  /// way hears from other hosts. True at once while next_done() has something to name.
  bool poll();
  /// A completion that is done and asked for notice; null: there is none.
  Completion* next_done();
  /// Whoever asked for notice of a call now waits for it: next_done() never names it. False when it is done,
  /// or not the caller's any more; `is_mine` says so, and is asked under the engine's lock.
  template <class IsMine>
  bool withdraw_notice(Completion& completion, IsMine is_mine);

  /// From now on it is advanced whenever the engine is, until detach(): when it is idle, or the engine
  /// failed.
  void attach(Background& background);
  void detach(Background& background);
  /// Runs `body`, which may start operations, and sends what these have to say. Never waits.
  void take_turn(Background& background, const std::function<void(EngineTurn&)>& body);

  // What the ranks are doing, for when a call takes long: engine_status.cpp.
  std::vector<LongCall> calls_longer_than(Nanoseconds time);
  /// Shows calls that take long to those that they wait for, see Communicator.
  void show_long_calls();
  /// Of a communicator that has had a call here, as ranks in the job; else empty.
  std::vector<Rank> members_of(CommId comm) const;
  /// What tells most about a rank of this host to who waits in that call; nothing: it is on another host.
  std::optional<Peer> look_at(Rank rank, CommId comm, std::uint64_t number) const;
  /// The same, asked of a rank of another host, about itself or another one of its host. The answer, if there
  /// is one, comes with take_answers().
  void ask(Rank rank, Rank about, CommId comm, std::uint64_t number);
  std::vector<Peer> take_answers();
  /// Makes progress now and then where nobody else may: others may ask.
  void look_after();
  /// Before the wire is closed: nothing is sent or received any more.
  void close_wire();
  /// Whether ranks of other hosts can be asked.
  bool has_wire() const;

  /// Why nothing works any more; "" as long as all is well. Once set it stays.
  std::string failure() const;
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void fail(const std::string& why);
  /// A rank of this host has ended. Nothing happens unless a call waits for it still.
  void fail_without(Rank rank, Nanoseconds waited);
  /// That rank can do no more, as somebody has seen who is not the engine.
  void fail_without(Rank rank, const std::string& why);

 private:
  void deliver(const Header& header, const View& view) override;
  std::byte* place_for(const Header& header) override;
  bool may_come_from(Rank sender, const Header& header) override;
  void leave_place(const Header& header) override;
  void peer_failed(Rank peer, const std::string& why) override;
  void forget_early_senders(CommId id, const std::vector<Rank>& ranks);
  bool progress_locked();
  bool advance_active();
  /// After a failure: nobody touches the buffers of calls any more.
  bool is_over() const { return shared_.working.load(std::memory_order_acquire) == 0; }
  // Calls that were started and wait for a message, without an operation: most programs wait for them soon.
  bool move_left();
  void settle();
  void settle(Communicator& communicator);
  void go_on_by_operations(Communicator& communicator);
  void make_way(Communicator& communicator);
  Started start_locked(Communicator& communicator, BriefCall& call, const void* in, void* out,
                       std::uint64_t number, Completion& completion);
  bool try_to_end(Communicator& communicator);
  void end_some_left(Communicator& communicator);
  bool resume(Communicator& communicator);
  void run_among_left(Communicator& communicator, BriefCall& call, Completion& completion);
  bool leave_arrived(bool& moved);
  bool only_left_ones_want() const;
  bool is_patient();
  bool finish_left(const Completion& completion);
  bool end_those_left_up_to(Communicator& communicator, const Completion& last);
  void end_left(Communicator& communicator, Completion& completion);
  void start_waiting(Communicator& communicator, const Call& call, Completion& completion,
                     PreparedPlan* plan);
  void move_host_now_and_then();
  ShortWait wait_at_once();
  void take_up(Communicator& communicator, Bytes push_at_least);
  void activate_unless_idle(Communicator& communicator);
  void take_up_rest(Communicator& communicator, const Completion& completion);
  void begin_time(const Call& call, Completion& completion);
  bool look(const Completion& completion, bool& moved, Communicator* waiting);
  template <class Look>
  bool sleep_unless(Look has_news, Nanoseconds at_most);
  void fail_locked(const std::string& why);

  // engine_background.cpp
  friend class EngineTurn;
  struct Attached {
    Background* background;
    bool is_advancing = false;  // by a thread that may have left the lock
  };
  std::vector<Attached>::iterator find(const Background& background);
  bool advance_backgrounds();

  // engine_helper.cpp
  void tell_helper(const Call& call, const PreparedPlan& plan);
  void note_absence();
  void call_helper();
  void help();
  void stand_in();
  bool program_has_moved();
  bool progress_or_fail();
  bool progress_or_fail_locked();
  void take_arithmetic();

  // Messages to one peer travel together from that many bytes on, where several calls are under way.
  static constexpr Bytes kTogether = 16 << 10;

  // engine_status.cpp
  static constexpr CommId kStatus = ~CommId{0};  // of messages that belong to no communicator
  struct Question {
    Rank from, about;
    CommId comm;
    std::uint64_t number;
  };
  struct StatusSent {
    std::array<std::byte, View::kInline> payload;
    std::uint32_t unfinished = 0;
  };
  void send_status(Rank to, std::uint64_t tag, std::span<const std::byte> payload);
  void take_status(const Header& header, const View& view);
  void answer_questions();

  Fabrics fabrics_;
  Waiting waiting_;
  std::optional<CoreBalance> balance_;  // where ranks outnumber the cores
  mutable BiasedMutex mutex_;
  Shared shared_;
  std::unordered_map<CommId, std::unique_ptr<Communicator>> communicators_;
  // Freed after a failure: a transport may still read their operations.
  std::vector<std::unique_ptr<Communicator>> buried_;
  std::vector<Communicator*> active_;  // those with operations under way
  std::vector<Communicator*> left_;    // have calls that were left, see settle()
  struct Patience {
    const Communicator* with = nullptr;
    std::uint64_t number = 0;  // of its oldest call that is left
    Nanoseconds until = 0;
  } patience_;  // see leave_arrived()
  std::vector<Attached> backgrounds_;
  std::vector<std::shared_ptr<PlanStore>> stores_;  // of communicators that there are
  Counters counted_;                                // by the plans of stores that are gone
  std::vector<Early> early_;                        // for communicators that this rank has not created yet
  Bytes early_bytes_ = 0;                           // of these
  std::map<std::pair<CommId, Rank>, Rank> early_senders_;  // of these, and the rank of the job of each
  std::string failure_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint32_t> calls_{0};  // blocking ones
  std::vector<Question> questions_;
  std::vector<Peer> answers_;
  std::list<StatusSent> status_sent_;
  std::uint32_t rounds_at_look_ = 0;
  bool wire_is_closed_ = false;

  // The helper sleeps until it is called, then looks now and then whether the program moves its calls itself.
  std::atomic<std::uint32_t> rounds_{0};  // of progress by the program
  std::atomic<int> sleeping_{0};          // of its threads, in wait(): a message wakes them
  std::thread helper_;
  std::mutex helper_mutex_;
  std::condition_variable helper_wakes_;
  std::atomic<bool> helper_sleeps_{true};
  std::atomic<int> helper_credit_{0};
  Arithmetic arithmetic_ = arithmetic();    // of who has started a call last; under the lock
  std::atomic<Nanoseconds> last_start_{0};  // 0: looked at since
  bool helper_is_called_ = false;
  std::uint32_t seen_rounds_ = 0;
  std::atomic<bool> helper_ends_ = false;  // set under helper_mutex_; the helper looks without it, too
};

template <class IsMine>
bool Engine::withdraw_notice(Completion& completion, IsMine is_mine) {
  std::lock_guard lock(mutex_);
  if (completion.done() || !is_mine()) return false;
  return std::exchange(completion.gets_notice_, false);
}

// One sleep, unless a last look has news; true when it had.
template <class Look>
bool Engine::sleep_unless(Look has_news, Nanoseconds at_most) {
  std::uint32_t announced = fabrics_.local->announce_sleep();
  if (has_news()) {
    fabrics_.local->cancel_sleep();
    return true;
  }
  fabrics_.local->sleep(announced, at_most, fabrics_.wire ? fabrics_.wire->wake_fd() : -1);
  return false;
}

}  // namespace ddl
