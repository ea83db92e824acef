// RequestGroup: persistent requests of one communicator whose all-reduces wait for each other's company.
//
// All ranks make these requests in one order, which gives each its slot, and start them in orders of their
// own (LazyAllReduce). The communicator and each request of a group share it: the program may free the
// communicator first, and a group is gone when its requests are and the next has begun. So memory is bounded
// by the requests that there are. Thread safety: all_reduces().
#pragma once

#include <memory>
#include <mutex>

#include "core/gradient/lazy_all_reduce.hpp"
#include "core/session/session.hpp"

namespace ddl {

/// What fuses calls on a communicator; null, alike on all ranks: nothing is fused there.
std::unique_ptr<LazyAllReduce> make_lazy(Session& session, const std::shared_ptr<PlanStore>& plans,
                                         LazyAllReduce::Identities identities, std::size_t slots);
WireRule wire_rule_of(const Session& session, const Members& members);

class RequestGroup {
 public:
  /// Requests of a group: an agreement on them is one cache line.
  static constexpr std::size_t kMost = 512;

  /// Its members give the same identity.
  RequestGroup(Session& session, std::shared_ptr<PlanStore> plans, CommId id)
      : session_(session), plans_(std::move(plans)), id_(id) {}

  /// Made by the first request that starts. Null: nothing is fused.
  LazyAllReduce* all_reduces();

 private:
  Session& session_;
  const std::shared_ptr<PlanStore> plans_;
  const CommId id_;
  std::once_flag is_made_;
  std::unique_ptr<LazyAllReduce> all_reduces_;
};

}  // namespace ddl
