// TagTuner: the engine or the original library, for calls of one kind and size that the ranks make in
// different orders, but that bring a tag which is the same on all of them and grows from call to call. So
// nothing may follow from how many calls a rank has seen.
//
// Some tags are *checkpoints*. Before such a call the ranks meet, bring numbers() and reduce them by maximum;
// decide() then says how they make this very call, which is measured, or that they have seen enough. Such a
// *verdict* holds from a tag on that no rank has begun a call of: each rank says which is the highest that it
// has begun, and begins none beyond before it has heard of the others. All ranks are in the call of the
// checkpoint then, so that nobody waits for what the program does.
//
// Why all decide alike: what a rank does not know of when it begins a call does not hold for that call, and
// of several verdicts that hold for one the one with the lowest checkpoint counts.
//
// A program that uses one tag again and again has no checkpoints beyond its first call of it.
// Thread safety: none. Pure: it knows no clock and talks to nobody.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/base/clock.hpp"

namespace ddl {

class TagTuner {
 public:
  using Tag = std::uint32_t;
  enum class Library : std::uint8_t { engine, original };

  /// How to begin a call.
  struct Begin {
    enum class What : std::uint8_t {
      wait,        // until settle() or unfreeze(), then ask again
      checkpoint,  // the ranks meet first
      plain        // by `library`
    } what = What::plain;
    Library library = Library::engine;
    bool is_settled = false;
  };
  Begin begin(Tag tag);

  /// What this rank brings to a checkpoint.
  using Numbers = std::array<std::int64_t, 7>;
  Numbers numbers(Nanoseconds spent, Nanoseconds elapsed) const;
  struct Decision {
    Library library = Library::engine;
    bool is_verdict = false;  // else only for this call
    Nanoseconds cost = 0;     // what a try of the original is taken to need
  };
  static Decision decide(const Numbers& of_all);
  /// What the call of a checkpoint has taken here.
  void record(Library library, Nanoseconds time);

  /// The highest tag that is begun. From now on calls beyond it wait.
  Tag freeze(Tag checkpoint);
  /// All ranks have begun no more than that.
  void settle(Tag checkpoint, Tag highest_of_all, Library library);
  /// It came to nothing.
  void unfreeze(Tag checkpoint);

 private:
  struct Frozen {
    Tag checkpoint, highest;
  };
  struct Verdict {
    Tag checkpoint, behind;
    Library library;
  };
  const Verdict* verdict_on(Tag tag) const;

  Tag highest_ = 0;
  std::array<std::vector<Nanoseconds>, 2> times_;  // by library
  std::vector<Frozen> frozen_;
  std::vector<Verdict> verdicts_;
  std::unordered_set<Tag> checkpoints_;  // that were
};

}  // namespace ddl
