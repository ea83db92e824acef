#include "core/collective/credit.hpp"

namespace ddl {
namespace {

std::span<const Step> token_steps(const Plan& plan) {
  const Flow& flow = plan.flows[static_cast<std::size_t>(plan.token_flow)];
  return std::span(plan.steps).subspan(flow.first, flow.count);
}

std::span<const Rank> peers_of(const Plan& plan, const Step& step) {
  return std::span(plan.peers).subspan(step.peer, step.peers);
}

}  // namespace

// Those whose tokens it would wait for.
std::span<const Rank> Credit::receivers(const Plan& plan) {
  for (const Step& step : token_steps(plan))
    if (step.verb == Verb::copy) return peers_of(plan, step);
  return {};
}

void Credit::note(Number number, const Call& call, const Plan& plan) {
  if (about_.empty()) {
    about_.resize(ranks_);
    ahead_.resize(kMostAhead);
  }
  for (const Step& step : token_steps(plan)) {
    if (step.verb == Verb::send)
      for (Rank rank : peers_of(plan, step)) owe(rank, number);
    else
      ahead_[last_++ % kMostAhead] = {number,
                                      peers_of(plan, step),
                                      call.count,
                                      call.whole,
                                      fingerprint_of(call),
                                      call.root,
                                      call.type,
                                      call.op,
                                      call.kind,
                                      call.variant};
  }
}

void Credit::owe(Rank rank, Number number) {
  if (about(rank).is_owed) return;
  about(rank).is_owed = true;
  if (owed_.empty()) owed_since_ = number;
  owed_.push_back(rank);
}

bool Credit::forget_heard() {
  const std::size_t before = first_;
  while (first_ < last_ && has_heard_of(ahead(first_))) ++first_;
  return first_ > before;
}

bool Credit::has_heard_of(const Ahead& one) const {
  return std::all_of(one.to.begin(), one.to.end(),
                     [&](Rank rank) { return about(rank).heard >= one.number; });
}

std::vector<Rank> Credit::waiting_for() const {
  std::vector<Rank> ranks;
  if (first_ == last_) return ranks;
  const Ahead& oldest = ahead(first_);
  std::copy_if(oldest.to.begin(), oldest.to.end(), std::back_inserter(ranks),
               [&](Rank rank) { return about(rank).heard < oldest.number; });
  return ranks;
}

std::optional<Call> Credit::call(Number number) const {
  for (std::size_t i = first_; i < last_; ++i) {
    const Ahead& one = ahead(i);
    if (one.number == number)
      return Call{nullptr, nullptr,  one.count, one.type,  one.op,      "",
                  0,       one.kind, one.root,  one.whole, one.variant, one.fingerprint};
  }
  return std::nullopt;
}

}  // namespace ddl
