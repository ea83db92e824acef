// Credit: how far a rank may be ahead of those it sends small messages to.
//
// Where some only send and others only receive (the root of a broadcast, the leaf of a reduce), who sends
// would have to wait for an answer, see operation.hpp. After a small call it does not: it notes to whom it
// has sent, and makes the next one. Whatever it hears from a rank later says how far that one has come,
// because calls are begun in their order. So in most programs nobody answers for the answer's sake. Who has
// received from ranks that it has sent nothing since, in that call or a later one, answers after
// kAnswerWithin calls at the latest: it owes them that.
//
// No more than kMostAhead calls are unheard of; the next such call begins when the oldest is not any more.
// Nobody waits in a circle: who waits for an answer about call k is at k + kMostAhead at least, and who owes
// it has not come to k + kAnswerWithin, so it does not wait for anything that the waiting one has to do.
//
// In a pairwise call (see Call) each two ranks decide for themselves: credit stands for the empty messages of
// the one that has nothing for the other, if what that one has is small.
//
// The first call of a communicator is done with tokens, before any that needs credit begins: nothing gathers
// for communicators that others have not made yet, or that serve for one call.
//
// Thread safety: none; the engine's lock is held.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/block_ring.hpp"
#include "core/collective/call.hpp"
#include "core/plan/plan_store.hpp"

namespace ddl {

class Credit {
 public:
  using Number = std::uint64_t;  // of a call of the communicator
  /// Few enough for the mailboxes of a host, see Mailbox::kEntries. Where ranks share cores, each does so
  /// many before another has its turn (4 ranks on two cores, broadcasts of 4 bytes one after the other: with
  /// 32 0.55 us, with 96 0.34).
  static constexpr Number kMostAhead = 96;
  static constexpr Number kAnswerWithin = 32;
  static constexpr Bytes kMostBytes = kMostWhole;  // of a block of such a call
  /// Marks the messages that only answer.
  static constexpr Tag kAnswer = ~Tag{0};

  explicit Credit(Rank ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// Whether such a call exchanges no tokens; alike on all ranks, and in a pairwise call on any two that have
  /// something for each other.
  static bool covers(const Call& call, const Plan& plan, Number number) {
    if (number == 0) return false;
    return call.pairwise ? stands_for_any(call, plan)
                         : plan.token_flow >= 0 && is_small(call.count, call, plan);
  }
  /// Calls body(Verb::copy, those it sends to without hearing back) and body(Verb::send, those it hears from
  /// without answering), each as often as it takes; nothing where a plan has no tokens.
  template <class Body>
  static void each_token_step(const Plan& plan, const Body& body) {
    if (plan.token_flow < 0) return;
    const Flow& flow = plan.flows[static_cast<std::size_t>(plan.token_flow)];
    for (const Step& step : std::span(plan.steps).subspan(flow.first, flow.count))
      body(step.verb, std::span(plan.peers).subspan(step.peer, step.peers));
  }
  /// Whether in a pairwise call that it covers nothing is sent for a step.
  static bool stands_for(const Call& call, const Plan& plan, const Step& step);
  /// Whether the next such call of this rank may begin.
  bool is_left(const Call& call, const Plan& plan) {
    return last_ - first_ < kMostAhead || !has_receivers(call, plan) || forget_heard();
  }
  /// The same of one that sends to those without hearing back.
  bool is_left(std::span<const Rank> to) {
    return last_ - first_ < kMostAhead || to.empty() || forget_heard();
  }
  /// Such a call has begun.
  void note(Number number, const Call& call, const Plan& plan);
  /// Of one that sends to those without hearing back, and hears from these without answering.
  void note(Number number, const Call& call, std::span<const Rank> to, std::span<const Rank> from);
  /// A message of that call has come, so the rank has begun it.
  void heard(Rank from, Number number) {
    if (!about_.empty()) about(from).heard = std::max(about(from).heard, number);
  }
  /// Whose answers are missing before is_left() can change.
  std::vector<Rank> waiting_for() const;

  bool owes() const { return owing_ > 0; }
  bool must_answer(Number number) const { return owes() && number >= owed_since_ + kAnswerWithin; }
  /// A message of that call goes to the rank, which will hear how far this one has come.
  void told(Rank rank, Number number) {
    if (owes() && about(rank).owed != 0 && about(rank).owed <= number) settle(rank);
  }
  /// Tells everybody who is owed an answer; `tell` returns false where that is not possible now.
  template <class Tell>
  void answer(const Tell& tell) {
    std::erase_if(owed_, [&](Rank rank) {
      if (about(rank).owed == 0) return true;
      if (!tell(rank)) return false;
      settle(rank);
      return true;
    });
  }

 private:
  struct About {
    Number heard = 0;
    Number owed = 0;  // the last call that it must hear about; 0: none
  };
  struct Ahead {
    Number number;
    const Rank* to;  // of the plan, or in to_
    std::size_t receivers;
  };
  static constexpr std::size_t kRing = 128;
  static_assert(kMostAhead <= kRing);

  template <class Body>
  static void each_partners(const Call& call, const Plan& plan, const Body& body);
  static bool has_receivers(const Call& call, const Plan& plan);
  static bool is_small(Elements count, const Call& call, const Plan& plan) {
    const Bytes bytes = count * size_of(call.type);
    return count > 0 && bytes <= kMostBytes && count <= plan.segment / size_of(call.type) &&
           !is_read_in_place(plan, bytes);  // its sender waits for its readers
  }
  static bool stands_for_any(const Call& call, const Plan& plan);
  void owe(Rank rank, Number number);
  void settle(Rank rank);
  bool forget_heard();
  bool has_heard_of(const Ahead& one) const;
  About& about(Rank rank) { return about_[static_cast<std::size_t>(rank)]; }
  const About& about(Rank rank) const { return about_[static_cast<std::size_t>(rank)]; }

  std::size_t ranks_;
  std::vector<About> about_;       // by rank; empty until there is something to know
  BlockRing<Ahead, kRing> ahead_;  // of which [first_, last_) are in use
  std::size_t first_ = 0, last_ = 0;
  std::vector<std::vector<Rank>> to_;  // of those in the ring that are pairwise
  std::vector<Rank> owed_;             // those, and some who have been told since
  std::size_t owing_ = 0;              // to so many
  Number owed_since_ = 0;
};

}  // namespace ddl
