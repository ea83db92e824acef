// PlanStore: the plans of one set of ranks, made at their first use and shared by all communicators of these
// ranks, in the same order.
//
// Plans live as long as the store: operations under way point to them. Thread safety: all members; what a
// plan was used for is counted under the engine's lock.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/plan/choice.hpp"
#include "core/plan/kind.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/task_choice.hpp"
#include "core/trace/counters.hpp"

namespace ddl {

/// Who takes part, and where they are; the same for all of them but for `me`.
struct Members {
  std::vector<Rank> ranks;  // in the job
  Rank me = 0;              // index in ranks
  std::vector<HostIndex> hosts;
  Grid grid;  // of hosts, or of the dimensions the user gave

  Rank size() const { return static_cast<Rank>(ranks.size()); }
  bool is_here(Rank member) const {
    return hosts[static_cast<std::size_t>(member)] == hosts[static_cast<std::size_t>(me)];
  }
};

/// A plan for one size class, and what it was used for.
struct PreparedPlan {
  /// A payload of more than that is not staged by agreement, see is_one_shot.
  static constexpr Bytes kMostOneShot = 16 << 10;

  std::uint64_t serial = 0;  // no other plan of the process has, or had, that number
  Bytes size_class = 0;
  Task task;
  PlanChoice choice;       // of an all-reduce: that the plan was made from
  TaskChoice task_choice;  // of another kind: likewise
  Plan plan;
  // The same with the owners of its funnels shifted, or with other lanes for short blocks, see takes_turns();
  // itself the first; null: not made yet.
  std::vector<PreparedPlan*> shifted;
  std::vector<Rank> to;      // the plan's peers, as ranks in the job
  std::vector<Rank> beyond;  // whom it sends to or hears from on other hosts, each once, likewise
  // All it does is to send everything to everybody of the host and to reduce: its blocks need no count of
  // their readers, see Communicator::kept_block().
  bool is_one_shot = false;
  // Within a host: it sends, takes and keeps whole blocks of the call, and besides there are tokens.
  bool is_brief = false;
  bool hears_wire = false;   // it receives from other hosts
  RailId rails = 0;          // it sends on rails below this one; 0: never between hosts
  std::uint32_t staged = 0;  // blocks that it has under way at once within the host
  struct Use {
    const char* collective;
    Tally tally = {};
    Narrowed narrowed = {};  // where elements travel narrower
  };
  std::deque<Use> uses;  // by collective; they stay where they are
  /// Of that collective, a literal; "": of one of our own, which nobody wants to count.
  Use& use_of(const char* collective);

  // Of whatever kind, see PlanChoice.
  const std::vector<std::uint32_t>& share() const {
    return is_all_reduce() ? choice.share : task_choice.share;
  }
  const std::vector<RailId>& rail() const { return is_all_reduce() ? choice.rail : task_choice.rail; }
  bool is_all_reduce() const { return task.kind == Kind::all_reduce; }
};

/// What an operation tells about itself when it is done.
struct Observed {
  // How long each rail took for what this rank hears over it in the first window of segments, in which no
  // rail waits for another; 0: nothing. Of a plan with several lanes.
  std::vector<Nanoseconds> rails;
  // How long the flows took for their steps of each dimension, waiting included, all flows and segments
  // together: they overlap, so that only the proportions mean anything. Empty unless the communicator times
  // its dimensions.
  std::vector<Nanoseconds> dimensions;
};

class PlanStore {
 public:
  PlanStore(Members members, const PlanLimits& limits);

  const Members& members() const { return members_; }
  /// What the ranks and hosts look like, for the tuning cache: "2 local x 4 hosts #1a2b3c4d".
  const std::string& name() const { return name_; }
  /// Before anything was measured.
  const PlanLimits& limits() const { return limits_; }

  /// The plan of an all-reduce made from that choice, for the size class of `bytes`.
  PreparedPlan& prepare(const PlanChoice& choice, Bytes bytes);
  /// The same of another kind. Error where its root is no member.
  PreparedPlan& prepare(const TaskChoice& choice, Bytes bytes);
  /// The plan of the call of that number: `plan`, or where calls take turns in whose links they load (see
  /// shifts() and takes_turns()) the one whose turn it is.
  PreparedPlan& turn(PreparedPlan& plan, std::uint64_t number) {
    return plan.shifted.empty() ? plan : shifted(plan, number % plan.shifted.size());
  }
  /// The plan for blocks of that many bytes that the cost model, or the rule for other collectives, chooses;
  /// `wire` counts in an all-reduce. The plan is one for calls by themselves, not made of parts.
  /// Error where there is none, alike on all members.
  PreparedPlan& plan_for(Task task, Bytes bytes, const WireFormat& wire = {});
  /// The same for blocks that are padded to that length and packed; null where they cannot be.
  PreparedPlan* packed_for(Task task, Bytes bytes);
  /// candidates() for the size class of `bytes`, before anything was measured.
  const std::vector<Candidate>& candidates_for(Bytes bytes, const WireFormat& wire = {});
  /// task_candidates() likewise, and a small reduce-scatter between hosts by an all-reduce.
  const std::vector<TaskCandidate>& candidates_for(Task task, Bytes bytes);
  /// Moves the counts since the last time to `into`.
  void collect(Counters& into);

 private:
  const std::vector<Candidate>& candidates_locked(Bytes bytes, const WireFormat& wire);
  std::vector<TaskCandidate> candidates_locked(Task task, Bytes bytes);
  PreparedPlan& prepare_locked(const PlanChoice& choice, Bytes bytes);
  PreparedPlan& prepare_locked(const TaskChoice& choice, Bytes bytes);
  void check(Task task) const;
  PreparedPlan& add(Task task, Bytes bytes, Plan plan);
  PreparedPlan& shifted(PreparedPlan& plan, std::size_t by);

  const Members members_;
  std::string name_;
  const PlanLimits limits_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PreparedPlan>> plans_;
  using Wire = std::tuple<DType, WireType, WireWhere>;
  std::map<std::tuple<Task, Bytes, Wire>, PreparedPlan*> plan_of_;                // by size class
  std::map<std::pair<Bytes, Wire>, std::vector<Candidate>> candidates_;           // by size class and wire
  std::map<std::pair<Task, Bytes>, std::vector<TaskCandidate>> task_candidates_;  // by size class
};

}  // namespace ddl
