// LazyAllReduce: nonblocking all-reduces of one communicator that wait for company, so that many small ones
// become one operation (GradientFlow, Sun et al., 2019). Ranks start them in one order; or, as the starts of
// persistent requests, each rank in an order of its own: then a call has a slot, alike on all ranks, and
// those of a slot are in one order.
//
// Ranks start calls at different times, and one may start its next only after it has waited for an earlier
// one. So no rank may commit to a batch by what it alone has started. Each counts its calls; an agreement, an
// all-reduce of the minimum, says how many all have started, and these are cut into batches, alike on all
// ranks. A rank takes part in the next agreement when `threshold` bytes of its calls are undecided, and
// whenever its engine is moved while one is: by the program's Wait or Test, by another call that waits, or by
// the helper thread while the program is away. It has a call to offer then, so each agreement decides at
// least one; and as long as one is under way, calls gather for the next. Nothing of this waits, and nothing
// depends on calls that a rank has not started.
//
// With several slots an agreement is the bitwise and of which slots each rank has an undecided call of, and
// decides one of each that all have. That may be none, where two ranks have started different ones. Then a
// rank takes part in the next after a pause, which doubles; at once when it starts another call, or when
// another rank has begun. This ends: who has an undecided call takes part again and again, and once all have
// started a call, all have offered it in the second agreement after the one under way then.
//
// Agreements and batches have a communicator of their own each: they are in the same order on all ranks,
// wherever they fall between the program's other calls.
//
// Thread safety: start(); the rest is the engine's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/collective/engine.hpp"
#include "core/gradient/fusion.hpp"
#include "core/gradient/fusion_memory.hpp"

namespace ddl {

class LazyAllReduce final : private Background {
 public:
  struct Identities {
    CommId agreements, batches;
    CommId program;  // of the communicator whose calls they are
  };
  /// The plan for an all-reduce of so many bytes that travels like that: alike on all ranks at any time.
  /// Error, alike too, where there is none. By any thread.
  using PlanFor = std::function<PreparedPlan&(Bytes, const WireFormat&)>;

  /// All references must outlive it. `slots`: the same on all ranks; one: they start all calls in one order.
  LazyAllReduce(Engine& engine, std::shared_ptr<PlanStore> plans, Identities identities, std::size_t slots,
                FusionRule rule, WireRule wire, PlanFor plan_for, FusionMemory& memory);
  /// Its calls are done, or the engine has failed.
  ~LazyAllReduce() override;

  /// Whether such a call waits for company: only by what is equal on all ranks.
  bool takes(const Call& call) const;
  /// Starts one that it takes. The completion is done when the call is.
  void start(const Call& call, Completion& completion, std::size_t slot = 0);

 private:
  struct Waiting {
    Call call;
    FusionClass of;
    Completion* completion;
    std::size_t slot;
  };
  struct KnownPlan {
    Bytes size_class;
    WireFormat wire;
    PreparedPlan* plan;  // null: there is none
  };
  struct Batch {
    std::vector<Waiting> parts;
    Call call{};  // of all of them
    PreparedPlan* plan = nullptr;
    FusionMemory::Block block;
    Completion completion;
  };

  bool advance(EngineTurn& turn) override;
  bool idle() const override { return undecided_.empty() && batches_.empty() && !is_agreeing_; }
  ProgramCall oldest() const override;
  void collect(Counters& into) override;

  bool has_slots() const { return slots_ > 1; }
  bool may_agree() const;
  void agree(EngineTurn& turn);
  void offer();
  void decide();
  std::vector<Waiting> take_decided();
  bool is_next_decided(std::size_t slot);
  void add_batch(std::vector<Waiting> parts);
  bool start_next(EngineTurn& turn);
  bool end_first_done(EngineTurn& turn);
  template <class Body>
  static void each_part(const Batch& batch, Body body);
  static void gather(const Batch& batch);
  static void scatter(const Batch& batch);
  void count(const Batch& batch);
  FusionClass class_of(const Call& call) const;
  PreparedPlan* find_plan(Bytes bytes, const WireFormat& wire) const;
  bool spans_hosts() const { return plans_->members().grid.spans_hosts(); }

  Engine& engine_;
  const std::shared_ptr<PlanStore> plans_;
  const CommId program_;
  const std::size_t slots_;
  const FusionRule rule_;
  const WireRule wire_;
  const PlanFor plan_for_;
  FusionMemory& memory_;
  Communicator& agreements_;
  Communicator& fused_;
  // What this rank says in an agreement, and its result, as far as nothing has come of it yet: how many
  // calls; or bits of slots.
  std::vector<std::uint64_t> mine_, agreed_;
  PreparedPlan& agreement_plan_;
  mutable std::mutex plans_mutex_;
  mutable std::vector<KnownPlan> known_plans_;

  std::deque<Waiting> undecided_;
  Bytes undecided_bytes_ = 0;
  std::uint64_t started_ = 0, decided_ = 0;  // calls so far
  Completion agreement_;
  bool is_agreeing_ = false;
  Nanoseconds pause_ = 0, paused_since_ = 0;    // after an agreement that decided nothing
  std::deque<std::unique_ptr<Batch>> batches_;  // decided, in their order; the first ones are under way
  std::size_t under_way_ = 0;
  Counters counted_;
};

}  // namespace ddl
