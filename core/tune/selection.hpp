// Selection: which route a call of one communicator takes: a plan of ours or the original library. In mode
// `p` it measures a few on the program's own blocking calls, agrees with the other ranks and settles; see
// Tuner. What it has settled on is kept here, and nowhere else, by kind, root and size class.
//
// The rule that keeps the ranks together: what it does depends on the sequence of calls and on agreed times
// alone. Changes happen in blocking calls only, where it may talk to the others (Agree).
// Thread safety: one call at a time, as MPI demands of the calls of one communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/plan/plan_store.hpp"
#include "core/plan/wire_rule.hpp"
#include "core/reduce/types.hpp"
#include "core/tune/ddl_options.hpp"
#include "core/tune/dump.hpp"
#include "core/tune/rail_watch.hpp"
#include "core/tune/trial_budget.hpp"
#include "core/tune/tuner.hpp"
#include "core/tune/tuning_cache.hpp"

namespace ddl {

/// A plan, or the original library and why.
struct Route {
  enum class Original : std::uint8_t {
    as_called,
    in_two_steps
  };  // the latter: reduce-scatter and all-gather
  PreparedPlan* plan = nullptr;
  const char* original = nullptr;
  Original how = Original::as_called;
  bool is_watched = false;  // finished() wants to hear of the call
  bool began_anew = false;  // the ranks have met before it
  bool stays = false;       // calls like it take that plan again, see Selection::counter_of()
};

/// What a selection must know of a call; `fingerprint` tells calls apart.
struct CallShape {
  Task task;
  Bytes bytes = 0;  // of a block
  Fingerprint fingerprint = 0;
  std::uint8_t variant = 0;   // see Call
  DType type = DType::uint8;  // of its elements
  bool barrier = false;       // see is_barrier()
};

/// All ranks of the communicator reduce these numbers, each bringing its own.
using Agree = std::function<void(std::span<std::int64_t> numbers, Op op)>;

struct TuneSettings {
  DdlOptions options;
  bool deterministic = false;  // nothing is measured
  bool has_original = true;    // there is a library to leave calls to
  GradientSettings gradients = {};
};

class Selection {
 public:
  /// All must outlive it.
  Selection(PlanStore& plans, const TuneSettings& settings, TuningCache& memory, TrialBudget& budget,
            Agree agree);

  /// Decides now how calls of that size begin, which the first of them would have to do first.
  void prepare(Task task, Bytes bytes) { class_of({task, bytes}); }
  /// May wait for the other ranks, so that what is measured counts from the last arrival: then the call
  /// begins anew, and Route::began_anew says so.
  Route blocking(const CallShape& call);
  /// Such a call is not made of parts. What it says holds until settlings() changes.
  Route nonblocking(const CallShape& call);
  std::uint32_t settlings() const { return settlings_; }
  /// Whether what holds of one call holds of the other.
  bool are_alike(const CallShape& one, const CallShape& other) const { return key_of(one) == key_of(other); }
  /// Who counts calls that are made again by the plan they had without asking blocking() each time, until
  /// settlings() changes or it does not leave one alone; null: nobody wants to hear of them.
  Tuner* counter_of(const CallShape& call) { return class_of(call).tuner.get(); }
  /// Why all further calls of that size go to the original, so that blocking() need not be asked before one;
  /// null: they do not, or the tuner still counts the calls, which all ranks must count alike.
  const char* left_to_original(const CallShape& call);
  /// The plan of an all-reduce that nobody measures: the same at any time, on all ranks. By any thread.
  /// Error, alike on all ranks, where there is none.
  static PreparedPlan& unmeasured(PlanStore& plans, Mode mode, Bytes bytes, const WireFormat& wire);
  /// After every blocking call that is watched or left to the original; `observed` where it was ours. May
  /// exchange a few numbers with the other ranks.
  void finished(const CallShape& call, const Route& route, Nanoseconds time, const Observed* observed);

 private:
  // Whatever the root: what is fast from one is fast from all.
  struct Key {
    Task task;
    std::uint8_t variant = 0;
    Bytes size_class = 0;
    WireFormat wire = {};
    bool is_funneled = false;  // see funnel_choice()
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Class {
    Key key;
    std::unique_ptr<Tuner> tuner;  // null once settled for good
    // What the tuner tries, planned when its turn comes: of an all-reduce, of `measured` or of the plans'
    // candidates, and of another kind, for root 0.
    std::vector<const PlanChoice*> ways;
    std::vector<Candidate> measured;  // where rails were
    std::vector<TaskChoice> task_ways;
    Route settled;                          // of another kind: without its plan, which depends on the root
    std::optional<TaskChoice> settled_way;  // of another kind; else what the plans' own rule says
    std::vector<PreparedPlan*> of_root;
    std::uint64_t rest = 0;                // calls before the look that is due next; 0: that is the first
    std::optional<bool> shows_rails = {};  // not looked at yet: nothing
  };

  Key key_of(const CallShape& call) const;
  Class& class_of(const CallShape& call);
  Route settled(Class& of_class, Task task);
  PreparedPlan& plan_of(Class& of_class, Task task);
  PreparedPlan& plan_of_way(const Class& of_class, TaskChoice way, Task task);
  // selection_classes.cpp
  void prepare(Class& of_class);
  void prepare_all_reduce(Class& of_class);
  void prepare_task(Class& of_class);
  double hopeless_for(Bytes bytes) const;
  void measure(Class& of_class, const std::vector<Candidate>& found);
  TunerPlan plan_of_tuning(const Class& of_class, std::size_t ways) const;
  void begin_tuning(Class& of_class, std::size_t ways);
  void look_again_later(Class& of_class, bool has_compared);
  std::optional<TuningEntry> recall(const Class& of_class) const;
  bool recall_all_reduce(Class& of_class);
  bool recall_task(Class& of_class, const std::vector<TaskCandidate>& found);
  bool is_usable(const PlanChoice& choice) const;
  std::string name_of_plans(const Key& key) const;
  void agree_on(std::span<std::int64_t> numbers, Op op);
  void ask(Tuner& tuner);
  void agree(Class& of_class);
  void settle(Class& of_class);
  void end_tuning(Class& of_class);
  void meet(Route& route);
  void dump(const CallShape& call, const Route& route, Nanoseconds time, const Observed* observed);
  // selection_rails.cpp
  double timed_on_rails(const PreparedPlan& prepared, Bytes bytes) const;
  PreparedPlan* that_shows_rails(PreparedPlan& prepared);
  bool looks_at_rails(Class& of_class, Route& route);
  void look_at_rails(const CallShape& call, const PreparedPlan& prepared, const Observed& observed);
  void learn_rails(RailRates rates);

  PlanStore& plans_;
  const TuneSettings& settings_;
  TuningCache& memory_;
  TrialBudget& budget_;
  const Agree agree_;
  PlanLimits limits_;  // with what was learned of the machine
  const WireRule wire_;
  bool funnels_barriers_ = false;   // see funnel_choice()
  std::optional<RailWatch> watch_;  // where there are rails to compare
  bool is_look_ = false;            // the call under route belongs to a look of the watch
  RailRates measured_rates_;        // empty as long as rails are only rated
  std::vector<std::unique_ptr<Class>> classes_;
  Class* last_ = nullptr;       // that was asked for: a loop asks again
  std::unique_ptr<Dump> dump_;  // of the blocking calls since the last one was printed
  std::uint64_t calls_ = 0;     // that were
  std::uint32_t settlings_ = 0;
};

}  // namespace ddl
