#include "core/collective/credit.hpp"

#include "core/collective/operation.hpp"

namespace ddl {

bool Credit::stands_for(const Call& call, const Plan& plan, const Step& step) {
  return count_of(call, step) == 0 && is_small(reach_of(call, step), call, plan);
}

bool Credit::stands_for_any(const Call& call, const Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(),
                     [&](const Step& step) { return stands_for(call, plan, step); });
}

template <class Body>
void Credit::each_partners(const Call& call, const Plan& plan, const Body& body) {
  if (!call.pairwise) return each_token_step(plan, body);
  thread_local std::vector<Rank> to, from;
  to.clear();
  from.clear();
  for (const Step& step : plan.steps)
    if (stands_for(call, plan, step)) (step.verb == Verb::copy ? to : from).push_back(step.rank);
  body(Verb::copy, std::span<const Rank>(to));
  body(Verb::send, std::span<const Rank>(from));
}

bool Credit::has_receivers(const Call& call, const Plan& plan) {
  bool has = false;
  each_partners(call, plan,
                [&](Verb verb, std::span<const Rank> ranks) { has |= verb == Verb::copy && !ranks.empty(); });
  return has;
}

void Credit::note(Number number, const Call& call, const Plan& plan) {
  each_partners(call, plan, [&](Verb verb, std::span<const Rank> ranks) {
    verb == Verb::copy ? note(number, call, ranks, {}) : note(number, call, {}, ranks);
  });
}

void Credit::note(Number number, const Call& call, std::span<const Rank> to, std::span<const Rank> from) {
  if (about_.empty()) about_.resize(ranks_);
  for (Rank rank : from) owe(rank, number);
  if (to.empty()) return;
  if (call.pairwise) {
    if (to_.empty()) to_.resize(kRing);
    std::vector<Rank>& own = to_[last_ % kRing];
    own.assign(to.begin(), to.end());
    to = own;
  }
  ahead_.set(last_++, {number, to.data(), to.size()});
}

void Credit::owe(Rank rank, Number number) {
  if (std::exchange(about(rank).owed, number) != 0) return;
  if (owing_++ == 0) {
    owed_since_ = number;
    owed_.clear();
  }
  owed_.push_back(rank);
}

void Credit::settle(Rank rank) {
  about(rank).owed = 0;
  --owing_;
}

bool Credit::forget_heard() {
  const std::size_t before = first_;
  while (first_ < last_ && has_heard_of(ahead_[first_])) ++first_;
  return first_ > before;
}

bool Credit::has_heard_of(const Ahead& one) const {
  return std::all_of(one.to, one.to + one.receivers,
                     [&](Rank rank) { return about(rank).heard >= one.number; });
}

std::vector<Rank> Credit::waiting_for() const {
  std::vector<Rank> ranks;
  if (first_ == last_) return ranks;
  const Ahead& oldest = ahead_[first_];
  std::copy_if(oldest.to, oldest.to + oldest.receivers, std::back_inserter(ranks),
               [&](Rank rank) { return about(rank).heard < oldest.number; });
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace ddl
