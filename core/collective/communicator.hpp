// Communicator: the ranks that take part in a collective and the operations under way among them.
//
// Operations are matched by the number of their call, which MPI and NCCL make the same on all ranks; many are
// under way at once, the older first, and they complete in any order. Calls between two ranks are numbered
// per pair of ranks and direction, the others know nothing of them. Operations of different communicators are
// independent of each other.
//
// Who is ahead of others sends them messages that wait there. So an operation opens only when those before it
// leave room: kMostOpen of them (few enough for the mailboxes of a host), or kMostUnderWay bytes. The oldest
// is always open, unless it needs a credit (credit.hpp) that this rank does not have. This is this rank's own
// business: nobody else needs to know.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <array>
#include <atomic>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/biased_mutex.hpp"
#include "core/base/fifo.hpp"
#include "core/base/room.hpp"
#include "core/collective/brief_call.hpp"
#include "core/collective/credit.hpp"
#include "core/collective/notices.hpp"
#include "core/collective/operation.hpp"
#include "core/collective/own_calls.hpp"
#include "core/collective/short_wait.hpp"
#include "core/plan/plan_store.hpp"
#include "core/trace/time_under_way.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl {

/// The transports a communicator sends on. `local` always exists; `wire` is null in a job of one host.
struct Fabrics {
  SharedMemoryTransport* local = nullptr;
  Transport* wire = nullptr;
  Rank ranks = std::numeric_limits<Rank>::max();  // of the job
};

/// What the communicators of one engine share.
struct Shared {
  Fabrics fabrics;
  BiasedMutex& mutex;                                       // the engine's lock
  Bytes streamed_from = 0;                                  // see topology/caches.hpp
  Nanoseconds for_the_other = 0;                            // see Waiting
  std::vector<std::unique_ptr<Operation>> operations = {};  // all ever made
  std::vector<Operation*> idle = {};
  Notices notices = {};
  std::vector<WireBytes> wire_bytes = {};  // that plans of the calls so far hand to the wire, by rail
  std::atomic<int> working = 0;            // threads that work on memory without the lock
  std::atomic<int> going_on = 0;           // operations under way that nobody waits for
  TimeUnderWay time = {};                  // of these
  std::uint32_t answering = 0;             // answers for the sake of credit that have not left
  struct Shown {
    std::string title;
    std::uint32_t unfinished = 0;
  };
  std::list<Shown> shown = {};  // see communicator_shown.cpp; those that have not left
};

/// The engine's lock is left meanwhile.
class WithoutLock {
 public:
  explicit WithoutLock(Shared& shared) : shared_(shared) {
    ++shared_.working;
    shared_.mutex.unlock();
  }
  ~WithoutLock() {
    shared_.mutex.lock();
    --shared_.working;
  }
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  Shared& shared_;
};

class Communicator : public Sender {
 public:
  static constexpr std::size_t kMostOpen = 64;
  static constexpr Bytes kMostUnderWay = 16 << 20;     // enough for any wire,
  static constexpr Bytes kMostUnderWayHere = 2 << 20;  // and within a host for the caches

  /// `known_as`: see Engine::create().
  Communicator(CommId id, std::shared_ptr<PlanStore> plans, Shared& shared, CommId known_as = 0);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  CommId id() const { return id_; }
  CommId known_as() const { return known_as_; }
  PlanStore& plans() const { return *plans_; }
  const Members& members() const { return plans_->members(); }
  Rank size() const { return members().size(); }

  /// Queues a call, to be done by that plan, and begins it if there is room; advance() works on it.
  void start(const Call& call, PreparedPlan& plan, Completion& completion);
  /// As start(), for a caller that waits anyway. A small call within a host is done from begin to
  /// end, without an operation, if its plan is about whole blocks and everybody comes within that wait.
  /// (2 ranks, 4 bytes, median of eight alternating runs: 0.48 us, by an operation 0.79 to 1.09, Open MPI
  /// 0.57 to 0.61.)
  void run(const Call& call, PreparedPlan& plan, Completion& completion, ShortWait wait);
  /// After that, without the engine's lock: see BriefCall.
  void combine_what_is_left() { passing_.combine_what_is_left(); }
  /// `brief` is that call from now on, which is_possible().
  void make_brief(BriefCall& brief, const Call& call, PreparedPlan& plan) const;
  /// The same of one that is ready to be made again, which combines for itself.
  void run(BriefCall& brief, Completion& completion, ShortWait wait);
  /// Likewise, with these buffers, where there is one rank.
  void run_alone(BriefCall& brief, const void* in, void* out);
  /// As start(), of such a call: without an operation if all messages are there. Where one is missing, and
  /// the call does not need an operation, it is left as it is, and false: until resume() or
  /// resume_by_operation() nothing else may happen here but the start of one that may_follow(). That sends
  /// what it has to, and is left, too.
  bool start(BriefCall& brief, Completion& completion);
  bool may_follow(const BriefCall& brief) const;
  /// Goes on with the oldest that is left, and waits so long; true: it is done.
  bool resume(ShortWait wait);
  void resume_by_operation();
  bool has_left_some() const { return !left_.empty(); }
  bool has_left(const Completion& completion) const;
  /// Whether it waits for that message of that peer, and for others.
  bool wants(const Header& header, const SharedMemoryTransport::Peer& from) const;
  /// Whether an operation is to go on with it. Some of its messages have been taken for one; or there was no
  /// room for one that it, or the latest, sends, and nothing arrives when there is; or it is a reduction of
  /// the program's own that waits for its readers alone, which who makes progress does not end.
  bool needs_operation() const;
  /// Its time begins now, unless somebody has waited for it before.
  void begin_waiting();
  /// Its call and its completion.
  BriefCall& left_brief() const { return *left_.front().attempt.brief; }
  const Call& left_call() const { return left_brief().call(); }
  Completion& left_completion() const { return *left_.front().attempt.completion; }
  Credit::Number left_number() const { return next_; }
  bool advance();
  /// Copies a part of what others read where this rank has it, see JointCopy; false: nobody wants that.
  bool help_readers();
  /// Nothing is under way, and nothing was found wrong that is still to be said.
  bool idle() const { return queue_.empty() && pairs().empty() && !contradiction_; }
  /// Whether another rank has begun a call that is not made here yet; only of one that is idle.
  bool is_awaited() const { return idle() && !early_.empty(); }

  /// Takes an arrived message for now or later. Returns what is wrong with it, "" when nothing.
  std::string take(const Header& header, const View& view);
  /// See MessageHandler.
  std::byte* place_for(const Header& header) const;
  void leave_place(const Header& header) const;
  /// The oldest operation under way, and whom it waits for, as ranks in the job.
  const Operation* oldest() const;
  std::vector<Rank> waiting_for() const;
  /// Marks the messages by which a rank shows the call that it makes.
  static constexpr Tag kShown = Credit::kAnswer - 1;
  /// Shows the oldest collective to those that it waits for, after a second and again after twice as long, so
  /// that few gather in the mailboxes of those that do not look.
  void show_oldest();
  /// After a failure: see Operation.
  void withdraw_places(Nanoseconds until) {
    each_open([until](Operation& operation) { operation.withdraw_places(until); });
  }
  /// After that: lets go of what the operations hold, and of the program's buffers.
  void drop();
  /// What was found wrong while early messages were looked at; "" when nothing.
  const std::string& problem() const { return problem_; }
  /// From now on its operations tell Observed::dimensions.
  void time_dimensions() { times_dimensions_ = true; }

  bool send(const Sending& sending, std::span<const std::byte> payload, std::uint32_t& unfinished) override;
  std::byte* claim(const Sending& sending, Bytes bytes, Outgoing& message) override;
  std::byte* claim_answer(const Sending& sending, const View& asked, Outgoing& message) override;
  void post(const Outgoing& message) override { shared_.fabrics.local->post(message); }
  BlockCopy& block_copy() override { return shared_.fabrics.local->block_copy(); }
  bool send_single_copy(const Sending& sending, std::span<const std::byte> payload, bool is_joint,
                        std::uint32_t& unfinished) override;
  SharedMemoryTransport::Fetched fetch(const View& view, std::byte* into) override;
  void work(Bytes bytes, const std::function<void()>& body) override;
  void flush(std::span<const Rank> to, std::uint32_t& unfinished) override {
    shared_.fabrics.wire->flush(to, unfinished);
  }

 private:
  using Number = Credit::Number;  // of a collective call, from 0
  static Seq seq_of(Number number) { return static_cast<Seq>(number) & ~kBetweenTwo; }

  Operation& queue(const Call& call, PreparedPlan& plan, Completion& completion, bool has_begun = false);
  Operation& make_operation(const Call& call, PreparedPlan& plan, Seq seq, Completion& completion);
  void open(Operation& operation, Number number, bool takes_credit);
  bool has_room(const Operation& next) const;
  Bytes under_way_of(const Operation& operation) const;
  void open_those_with_room(bool room_for_all = false);
  Bytes most_under_way() const;
  /// Results of calls that wait together are written past the cache when they do not fit it together.
  bool streams(Bytes bytes) const { return bytes >= shared_.streamed_from; }
  bool remove_done();
  void retire(Operation& operation);
  Operation* oldest_collective() const { return queue_.empty() ? nullptr : queue_.front(); }
  Operation* collective_under_way(Seq seq) const;
  Operation* addressee(const Header& header) const;
  bool is_over(const Header& header) const;
  Seq next_between(const Call& call);
  std::span<Operation* const> pairs() const {
    return between_two_ ? std::span<Operation* const>(between_two_->under_way)
                        : std::span<Operation* const>();
  }
  template <class Body>
  void each_open(const Body& body) const {
    for (std::size_t i = 0; i < opened_; ++i)
      if (queue_[i]) body(*queue_[i]);
    for (std::size_t i = 0; i < pairs().size(); ++i) body(*pairs()[i]);
  }

  // A brief call that may be done from begin to end.
  struct Attempt {
    BriefCall* brief;
    Completion* completion;
    ShortWait wait;               // that is left
    std::size_t done = 0;         // so many steps
    bool heard_all_alone = true;  // see kSenderWasAlone
  };
  // One that was started and left; meanwhile its brief call may be started with other buffers.
  struct Left {
    Attempt attempt;
    const void* in;
    void* out;
    std::uint64_t number;     // see Call
    Nanoseconds began;        // 0: nobody wants to know
    bool is_awaited = false;  // see begin_waiting()
  };
  static constexpr std::size_t kMostLeft = 64;  // fewer messages than a mailbox holds
  bool is_alone(const BriefCall& brief);
  static bool may_be_left_with_others(const BriefCall& brief);
  static bool is_stuck(const Attempt& attempt);
  void leave(const Attempt& attempt);
  Attempt& take_up_left();
  bool go_on(Attempt& attempt);
  void send_ahead(Attempt& attempt);
  void go_on_by_operation(const Attempt& attempt);
  bool run_step(Attempt& attempt, const BriefCall::BriefStep& todo, Number number);
  bool send_brief(const BriefCall& brief, const BriefCall::BriefStep& todo, Number number);
  bool take_brief(Attempt& attempt, const BriefCall::BriefStep& todo);
  bool is_of_step(const Header& header, const BriefCall::BriefStep& todo) const;
  static void reduce_brief(BriefCall& brief, const BriefCall::BriefStep& todo,
                           std::span<const void*> sources);
  bool fetch_brief(const Attempt& attempt, const BriefCall::BriefStep& todo);
  bool await_readers(Attempt& attempt);
  bool take_answer(const SharedMemoryTransport::Arrived& message, SharedMemoryTransport::Peer& peer);
  bool look_for_credit(const BriefCall& brief);
  void answer_those_owed(Number number);
  bool send_answer(Rank member, Number number);
  Number number_of(Seq seq) const;
  void count(const Operation& operation);
  static Nanoseconds time_since(Nanoseconds began, const Tally& tally);
  Outgoing addressed(const Header& header, const Step& step, const PreparedPlan& prepared) const;
  /// Those that step sends to hear of that call.
  void note_told(const Step& step, const PreparedPlan& prepared, Number number);
  void note_told(const Sending& sending);
  bool is_pressing(const Sending& sending) const;
  template <class Try>
  bool try_pressing(const Sending& sending, Outgoing& message, Try attempt);
  void stage(Outgoing& message, Number number);
  std::byte* kept_block(Number number);
  void prefetch_other_kept(const Outgoing& sent) const;
  void note_kept(Rank member, Bytes offset);
  void heard_all_alone(Number number);
  void leave_kept_blocks();
  void take_early();
  void take_early_of(Seq seq);
  void take_again(const std::vector<Early>& messages);
  std::string refuse_without_addressee(const Header& header, View view);
  std::string refuse(const Header& header, View view, const Operation& operation);
  std::string refuse_foreign(const Header& header, View view, const Operation* operation) const;
  // communicator_shown.cpp
  using OwnCall = OwnCalls::Known;
  static constexpr const char* kAnotherCall =
      "another kind, root, count, type, operation or type that travels";
  std::optional<OwnCall> own_call(Seq seq) const;
  void keep_shown(const Header& header, View view);
  void take_shown(const Header& header, View view);
  void contradict(const Header& header, const OwnCall& mine, const std::string* theirs);
  void tell_contradiction();
  std::string contradiction_of(const Header& header, const std::string& mine,
                               const std::string& theirs) const;
  void show(Rank member, Seq seq, const OwnCall& mine);
  void show_to_all(Seq seq, const OwnCall& mine);

  // A sender alone finds out that its receiver makes another call: by the token that comes before the data.
  struct Warning {
    Outgoing message;  // shows the receiver what call this is
    Fabric fabric;
    std::string problem;  // of this rank, once the message is out
    bool sent = false;
    std::uint32_t unfinished = 0;
  };
  Warning warning_of(const Operation& operation, std::string problem) const;
  void warn_receiver();

  const CommId id_, known_as_;
  const std::shared_ptr<PlanStore> plans_;
  Shared& shared_;
  BriefCall passing_;            // of a call that is made now and not kept
  Fifo<Left> left_;              // from the oldest on, whose number is next_; see start()
  Room fetched_;                 // where this rank reads what it then reduces in place
  Fifo<Operation*> queue_;       // collectives from the oldest that is not done; null: done
  std::size_t opened_ = 0;       // so many of them are open
  std::size_t open_count_ = 0;   // of which so many are under way,
  Bytes open_bytes_ = 0;         // with so many bytes
  Bytes queued_bytes_ = 0;       // of the buffers of all of them
  Number first_ = 0, next_ = 0;  // numbers of queue_.front() and of the next call
  Credit credit_;
  OwnCalls own_calls_;
  std::uint32_t read_ = 0;         // payloads of the call that is made now, to be read where they are
  bool waits_for_credit_ = false;  // the next operation to be opened does
  bool times_dimensions_ = false;
  bool is_working_ = false;  // a thread has left the lock in the middle of something
  // Calls between two. Most communicators have none, and are allocated sooner without these.
  struct BetweenTwo {
    std::vector<Operation*> under_way;
    std::unordered_map<Rank, Seq> sent_to, received_from;  // how many there have been, by the other rank
  };
  std::unique_ptr<BetweenTwo> between_two_;  // null: there were none
  std::vector<Early> early_, scratch_;
  // One-shot operations send from two blocks of which nobody counts the readers.
  struct Kept {
    std::byte* block = nullptr;
    Number used_by = 0;
  };
  std::array<Kept, 2> kept_{};
  Number all_read_before_ = 0;  // all members have read what was sent to them in calls before that one
  std::vector<std::array<Bytes, 2>> kept_of_;  // where those of the other members are; empty: none was seen
  std::size_t kept_known_ = 0;
  /// A loop need not note again and again what it knows: nobody has more than two.
  bool knows_all_kept() const { return kept_known_ == 2 * static_cast<std::size_t>(size() - 1); }
  std::string problem_;
  std::unique_ptr<Warning> warning_;
  struct Contradiction {
    Seq seq;
    OwnCall mine;
    std::string text;
    bool names_both;
    Nanoseconds until;  // the other's call may be shown, and ours must have left
    bool is_shown = false;
  };
  std::unique_ptr<Contradiction> contradiction_;  // found, and not said yet: nothing moves any more
  struct Shows {
    Number call = 0;                   // the oldest
    Nanoseconds next = 1'000'000'000;  // it is shown when it has waited so long
  } shows_;
};

}  // namespace ddl
