// Selection: which way a call of one communicator takes: a plan of ours or the original library. In mode `p`
// it measures a few on the program's own blocking calls, agrees with the other ranks and settles; see Tuner.
//
// The rule that keeps the ranks together: what it does depends on the sequence of calls and on agreed times
// alone. Changes happen in blocking calls only, where it may talk to the others.
// Thread safety: one call at a time, as MPI demands of the calls of one communicator.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "core/collective/engine.hpp"
#include "core/tune/ddl_options.hpp"
#include "core/tune/dump.hpp"
#include "core/tune/memory.hpp"
#include "core/tune/rail_watch.hpp"
#include "core/tune/tuner.hpp"

namespace ddl {

/// A plan, or the original library and why.
struct Way {
  enum class Original : std::uint8_t {
    as_called,
    in_two_steps
  };  // the latter: reduce-scatter and all-gather
  PreparedPlan* plan = nullptr;
  const char* original = nullptr;
  Original how = Original::as_called;
  bool is_watched = false;  // finished() wants to hear of the call
};

struct TuneSettings {
  DdlOptions options;
  bool deterministic = false;  // nothing is measured
};

class Selection {
 public:
  /// All must outlive it.
  Selection(Engine& engine, Communicator& communicator, const TuneSettings& settings, TuneMemory& memory);

  /// May wait for the other ranks, so that what is measured counts from the last arrival: then the call
  /// begins anew.
  Way blocking(Call& call);
  Way nonblocking(const Call& call);
  /// After every blocking call that is watched or left to the original, with its operation if it was ours.
  /// May exchange a few numbers with the other ranks.
  void finished(const Call& call, Nanoseconds time, const Operation* operation);

 private:
  struct SizeClass {
    bool ready = false;
    std::unique_ptr<Tuner> tuner;      // null once settled
    std::vector<PreparedPlan*> plans;  // that the tuner tries
    Way settled;
  };

  SizeClass& class_of(const Call& call);
  void prepare(SizeClass& of_class, Bytes bytes);
  void measure(SizeClass& of_class, Bytes bytes, const std::vector<Candidate>& found);
  bool recall(SizeClass& of_class, Bytes bytes);
  bool is_usable(const PlanChoice& choice) const;
  void agree(SizeClass& of_class, const Call& call);
  void settle(SizeClass& of_class, Bytes bytes);
  bool shows_rails(const PreparedPlan& prepared) const;
  void look_at_rails(const SizeClass& of_class, Bytes bytes, const Operation* operation);
  void learn_rails(const PreparedPlan& prepared, Bytes bytes, std::span<const std::int64_t> times);
  void meet(Call& call);
  void reduce(std::span<std::int64_t> numbers, Op op);
  void dump(const Call& call, Nanoseconds time, const Operation* operation);

  Engine& engine_;
  Communicator& communicator_;
  const TuneSettings& settings_;
  TuneMemory& memory_;
  std::string grid_;                    // its name in the memory
  std::optional<RailWatch> watch_;      // where there are rails to compare
  bool is_look_ = false;                // the call under way belongs to a look of the watch
  std::vector<double> measured_rates_;  // of the rails; empty as long as they are only rated
  std::array<SizeClass, 64> classes_;
  Dump dump_;                // of the blocking calls since the last one was printed
  std::uint64_t calls_ = 0;  // that were
};

}  // namespace ddl
