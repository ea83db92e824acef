// What tests of Selection have in common: the calls of a front, and what each rank remembers.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "core/base/clock.hpp"
#include "core/tune/selection.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl::test {

// What a front has of a communicator.
struct FrontCalls {
  Engine& engine;
  Communicator& communicator;
  TrialBudget budget;
  Selection selection;
  std::set<const PreparedPlan*> used = {};
  bool was_watched = false;  // the last call

  /// `began`: the job did; for a long time unless said, so that trials are not too dear.
  FrontCalls(Engine& of, Communicator& on, const TuneSettings& settings, TuningCache& memory,
             Nanoseconds began = 0)
      : engine(of),
        communicator(on),
        budget(began),
        selection(on.plans(), settings, memory, budget, agree()) {
    if (settings.options.dump_iter) engine.time_dimensions(on);
  }
  static CallShape shape_of(const Call& call) { return {call.task(), call.bytes(), fingerprint_of(call)}; }
  /// Makes a blocking call; false when it is left to the original.
  bool run(Call& call) {
    Route route = selection.blocking(shape_of(call));
    if (route.began_anew) call.began = now();
    Observed observed;
    if (route.plan) engine.run(communicator, call, route.plan, &observed);
    used.insert(route.plan);
    was_watched = route.is_watched;
    selection.finished(shape_of(call), route, now() - call.began, route.plan ? &observed : nullptr);
    return route.plan != nullptr;
  }

 private:
  Agree agree() {
    return [this](std::span<std::int64_t> numbers, Op op) {
      engine.run(communicator, {numbers.data(), numbers.data(), numbers.size(), DType::int64, op, "", now()});
    };
  }
};

inline std::vector<std::unique_ptr<TuningCache>> memories_of(const VirtualJob& job) {
  std::vector<std::unique_ptr<TuningCache>> memories;
  for (Rank rank = 0; rank < job.size(); ++rank) memories.push_back(std::make_unique<TuningCache>("test"));
  return memories;
}

}  // namespace ddl::test
