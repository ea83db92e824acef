#include "core/session/request_group.hpp"

#include "core/base/error.hpp"
#include "core/session/identity.hpp"

namespace ddl {

WireRule wire_rule_of(const Session& session, const Members& members) {
  return wire_rule(session.job_map().gradients, members.size(), members.grid.spans_hosts());
}

std::unique_ptr<LazyAllReduce> make_lazy(Session& session, const std::shared_ptr<PlanStore>& plans,
                                         LazyAllReduce::Identities identities, std::size_t slots) {
  const Members& members = plans->members();
  const FusionRule rule = fusion_rule(session.job_map().gradients.lazy, members.grid.spans_hosts());
  const Mode mode = session.tuning().settings().options.mode;
  if (rule.threshold == 0 || members.size() == 1 || mode == Mode::scatter) return nullptr;
  auto plan_for = [&store = *plans, mode](Bytes bytes, const WireFormat& wire) -> PreparedPlan& {
    return Selection::unmeasured(store, mode, bytes, wire);
  };
  try {
    return std::make_unique<LazyAllReduce>(session.engine(), plans, identities, slots, rule,
                                           wire_rule_of(session, members), plan_for, session.fusion_memory());
  } catch (const Error&) {  // alike on all ranks: there is not even a plan for the agreement
    return nullptr;
  }
}

LazyAllReduce* RequestGroup::all_reduces() {
  std::call_once(is_made_, [this] {
    const CommId agreements = identity_of(id_, 0, 0);
    all_reduces_ = make_lazy(session_, plans_, {agreements, identity_of(id_, 0, 1), agreements}, kMost);
  });
  return all_reduces_.get();
}

}  // namespace ddl
