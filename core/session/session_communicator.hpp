// SessionCommunicator: some ranks of a job and the way their calls take: by a plan of the engine, or left to
// the original library. The buffers of its calls may be in device memory.
//
// The engine learns of it in its first call: many are made for their context alone. The rule a user can
// break: all members make the same calls in the same order, or all of them with keys. MPI demands one order
// of blocking and nonblocking calls together. But Open MPI numbers each by themselves, and programs rely on
// it (mpi4py 4.1's own tests start a reduction before a barrier on one rank and after it on the others). So
// they are two communicators to the engine. What blocking calls of a class settle on holds for nonblocking
// ones of it, too: at that moment the two may not change places.
//
// Thread safety: one call at a time, as MPI demands of the calls of one communicator; but calls with keys
// from any threads.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/collective/padded_call.hpp"
#include "core/gradient/lazy_all_reduce.hpp"
#include "core/gradient/sparse_gradients.hpp"
#include "core/session/key_counts.hpp"
#include "core/session/request_group.hpp"
#include "core/session/session.hpp"

namespace ddl {

/// What became of a call.
struct Outcome {
  enum class What : std::uint8_t {
    failed,                 // see Session::failure()
    done,                   // the result is in its buffer
    original,               // left to the original library, alike on all ranks: as it was called,
    original_in_two_steps,  // or as a reduce-scatter and an all-gather
    under_way               // Session::next_ended() will name it
  };
  What what = What::failed;
  const char* why = "";      // where it is left to the original
  bool is_measured = false;  // then original_done() wants to hear how long that took
  // The one that such calls take each time; null: that is not known, or it is not by a plan alone.
  PreparedPlan* plan = nullptr;
};

class SessionCommunicator {
 public:
  /// Nobody else hears of it; its members give the same identity.
  SessionCommunicator(Session& session, CommId id, std::shared_ptr<PlanStore> plans)
      : session_(session), id_(id), plans_(std::move(plans)) {}
  /// Of the same ranks, for the starts of one persistent request. All make these of `parent` in one order;
  /// they start their requests in any. Small all-reduces wait for those of other requests of `parent`, if at
  /// all.
  SessionCommunicator(SessionCommunicator& parent, CommId id);
  ~SessionCommunicator();
  SessionCommunicator(const SessionCommunicator&) = delete;
  SessionCommunicator& operator=(const SessionCommunicator&) = delete;

  Session& session() const { return session_; }
  const std::shared_ptr<PlanStore>& plans() const { return plans_; }

  /// Does now what its first small call would have to do first.
  void warm_up();
  /// A blocking call, from beginning to end. Error when a device copy fails.
  Outcome run(Call&& call);
  Outcome run(const Call& call) { return run(Call(call)); }
  /// A call that is made again and again; `counter`: see Selection::counter_of().
  struct Kept {
    BriefCall call;
    Tuner* counter = nullptr;
    CallShape shape = {};
    Communicator* on = nullptr;
    bool is_started = false;                   // it has been, and may be under way
    const void *in = nullptr, *out = nullptr;  // its last buffers
  };
  enum class How : std::uint8_t { run, started };
  /// Keeps a call that was done, or started, by that plan, until forget_kept(), for run() or start() to make
  /// it again with other buffers at the cost of its messages; null: that would change nothing.
  /// The layouts of blocks of unequal length must live as long.
  Kept* keep(const Call& call, PreparedPlan& plan, How how);
  /// What a call says of how many elements there are.
  struct Counts {
    Elements count = 0;
    BlockLayout in_blocks = {}, out_blocks = {};
    std::uint64_t lengths = 0;
  };
  /// Makes of it the call that differs in its counts alone; false: that one takes another way, and this one
  /// stays.
  bool recount(Kept& kept, const Counts& counts);
  /// What::original: nothing was done, because a buffer is in device memory; else because such calls may take
  /// another way now, and all that are kept should be forgotten.
  Outcome::What run(Kept& kept, const void* in, void* out, std::uint64_t number);
  /// The same of one that was started.
  Outcome start(Kept& kept, const void* in, void* out, std::uint64_t number, void* owner,
                SessionCall*& started);
  /// Those that were kept are gone.
  void forget_kept();
  /// A gradient for calls that name it. All members make the same ones with the same settings, in the same
  /// order among their other calls. On one host all of it travels.
  std::shared_ptr<SparseGradient> make_gradient(Residual residual, SparseSettings settings);
  void original_done(const Call& call, Nanoseconds time);
  /// A blocking call that meets those of the other members that bring the same key, whatever else they make
  /// before it. Those of one key are made one after the other; see KeyCounts. It takes the way of nonblocking
  /// calls.
  Outcome run(const Call& asked, std::uint64_t key);
  /// Why all further calls like that are left to the original library: a rank may make them without asking
  /// run(), whatever the others do. null: they are not, or not yet for good.
  const char* left_to_original(const Call& asked);
  /// Starts a call that moves while the program computes; `owner` is the caller's name for it, and `started`
  /// the session's where it is under way, for Session::wait(). Error when a device copy fails.
  Outcome start(const Call& asked, void* owner, SessionCall*& started);
  /// The same for who holds the call itself: where it is under way, wait() or test() tell of its end, once.
  /// Sends and receives, too; these move while somebody waits.
  Outcome start(const Call& asked, SessionCall& call);
  /// The same of an all-reduce of a gradient that was made here.
  Outcome start(const Call& asked, const std::shared_ptr<SparseGradient>& gradient, SessionCall& call);
  Outcome wait(SessionCall& call);
  std::optional<Outcome> test(SessionCall& call);

 private:
  void make_usable();
  Communicator& of_runs();
  Communicator& of_starts();
  Outcome leave(const Route& route);
  std::shared_ptr<LazyAllReduce> lazy_here() const;
  CallShape shape_of(const Call& call) const;
  void make_sparse(const SparseSettings& settings);
  enum class Way : std::uint8_t { by_plan, lazily, sparsely };
  struct StartRoute {
    Way how;
    Route route;  // of `by_plan`
    // Of `sparsely`; null: by its place in the step.
    const std::shared_ptr<SparseGradient>* gradient = nullptr;
  };
  StartRoute route_to_start(const Call& asked);
  Route route_of(const CallShape& shape);
  CommId identity_of_key(std::uint64_t key);
  Outcome end(SessionCall& call);
  /// Without a plan: it is lazy.
  Started start(const StartRoute& way, const Call& asked, SessionCall& call);
  Outcome run_sparse(const Call& asked);
  bool has_failed() const { return session_.engine().failed(); }
  static bool is_on_device(Kept& kept, const void* in, const void* out);

  Session& session_;
  const CommId id_;
  const std::shared_ptr<PlanStore> plans_;
  // Null: there was no such call.
  Communicator *of_runs_ = nullptr, *of_starts_ = nullptr;
  std::unique_ptr<Selection> selection_;
  // What the ranks agree about, for lines about who does not come to that.
  struct Decided {
    const char* collective = "";
    std::uint64_t number = 0;
  } decided_;
  std::shared_ptr<RequestGroup> group_;     // null: these are no starts of a request
  std::size_t slot_ = 0;                    // in it
  std::shared_ptr<RequestGroup> requests_;  // of this communicator; those made last
  std::uint64_t requests_made_ = 0;
  std::shared_ptr<LazyAllReduce> lazy_;      // null: each call goes by itself
  std::unique_ptr<SparseGradients> sparse_;  // null: all of each gradient is sent
  std::vector<std::unique_ptr<Kept>> kept_;
  std::uint32_t kept_since_ = 0;  // so many settlings of the selection
  SessionCall* ready_ = nullptr;  // for the next of these that is started
  Padding padding_;
  std::mutex mutex_;  // of the selection and of what follows, for calls with keys
  KeyCounts made_;
};

}  // namespace ddl
