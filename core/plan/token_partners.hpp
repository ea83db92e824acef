// TokenPartners: whom a rank sends something of a segment to and whom it hears from, and so who exchanges
// tokens where not everybody depends on everybody anyway; see operation.hpp.
//
// A value; thread safe as one.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "core/plan/plan_builder.hpp"

namespace ddl {

class TokenPartners {
 public:
  void sends_to(std::span<const Rank> ranks) { receivers_.insert(ranks.begin(), ranks.end()); }
  void hears_from(std::span<const Rank> ranks) { senders_.insert(ranks.begin(), ranks.end()); }
  /// In a flow of their own.
  void exchange_tokens(PlanBuilder& build) const {
    build.begin_flow();
    build.send_token(std::vector<Rank>(senders_.begin(), senders_.end()));
    build.await_tokens(std::vector<Rank>(receivers_.begin(), receivers_.end()));
  }

 private:
  std::set<Rank> senders_, receivers_;
};

}  // namespace ddl
