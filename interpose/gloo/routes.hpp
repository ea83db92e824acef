// Routes: which calls of one context go to the engine and which are left to gloo because it is faster there:
// a TagTuner per function, size class, type and operation, and the ranks' talks about them.
//
// The rule: every call that goes to the engine or is left for that reason asks first, and end()s.
// Thread safety: all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "core/tune/tag_tuner.hpp"
#include "core/tune/trial_budget.hpp"

namespace ddl::gloo {

class Routes {
 public:
  using Tag = TagTuner::Tag;
  /// All ranks reduce these numbers by maximum, while they make the call of one key, in talks that are
  /// counted from 0. False: the engine has failed.
  using Agree = std::function<bool(std::span<std::int64_t> numbers, int talk)>;

  /// `budget` must outlive it: that of all contexts of the process.
  explicit Routes(TrialBudget& budget) : budget_(budget) {}

  /// The same on all ranks for calls that are measured as one.
  using Class = std::uint64_t;
  struct Choice {
    bool failed = false;  // the engine has
    TagTuner::Library library = TagTuner::Library::engine;
    TagTuner* measures = nullptr;  // end() wants to hear of it
    Nanoseconds began = 0, reserved = 0;
  };
  /// May wait for the other ranks.
  Choice begin(Class of_class, Tag tag, const Agree& agree);
  /// It is done, and right.
  void end(const Choice& route);

 private:
  Choice meet(TagTuner& tuner, Tag tag, const Agree& agree);
  bool conclude(TagTuner& tuner, Tag tag, TagTuner::Library library, const Agree& agree);

  TrialBudget& budget_;
  std::mutex mutex_;  // of what follows; not held while ranks talk
  std::condition_variable changed_;
  std::map<Class, TagTuner> tuners_;
};

}  // namespace ddl::gloo
