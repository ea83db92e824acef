// Hierarchical communicators of a job whose ranks are threads, on the double of a library.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "core/hierarchy/hierarchy_setup.hpp"
#include "tests/core/hierarchy/library_double.hpp"
#include "tests/core/plan/plans.hpp"
#include "tests/support/exchange_board.hpp"
#include "tests/support/immediate_driver.hpp"

namespace ddl::test {

inline constexpr HierarchyCut kSmallCut = {64, 8, 32};

class HierarchyJob {
 public:
  explicit HierarchyJob(const std::vector<Rank>& extents)
      : grid_(blocks(extents, 1)),
        whole_(std::make_shared<LibraryGroup>(static_cast<std::size_t>(grid_.ranks()))) {
    has_no_rails.clear();
    tally.parts = tally.rails = 0;
    tally.calls = tally.on_rails = tally.meetings = tally.complaints = 0;
  }

  struct Member {
    Rank rank;
    LibraryComm& whole;
    std::shared_ptr<HierarchicalCommunicator> hierarchy;  // null where the library was left alone

    /// One all-reduce of `values`, by a route of its choice; how it went.
    HierarchyRoute sum(const std::vector<Value>& in, std::vector<Value>& out) const {
      PlannedCall how =
          hierarchy->choose({in.data(), out.data(), in.size(), sizeof(Value), kValueType, 0, nullptr});
      EXPECT_EQ(enqueue(library_double(), {&how, 1}), 0);
      return how.route;
    }
  };
  using Body = std::function<void(Member& member)>;

  /// A thread per rank: `before` its setup, then `body`.
  void run(std::vector<HierarchyRoute> routes, Body before, Body body) {
    ExchangeBoard board(grid_.ranks());
    std::vector<std::jthread> threads;
    for (Rank rank = 0; rank < grid_.ranks(); ++rank)
      threads.emplace_back([&, rank] {
        LibraryComm whole{.group = whole_, .place = static_cast<std::size_t>(rank)};
        Member member{rank, whole, nullptr};
        before(member);
        std::vector<HierarchySetup> setups(1);
        setups[0] = {&whole,
                     nullptr,
                     {hierarchy_layout(grid_, rank), kSmallCut, routes},
                     {},
                     fmt::format("rank {}", rank),
                     std::make_unique<BoardExchange>(board, rank)};
        member.hierarchy =
            std::move(set_up_hierarchies(library_double(), immediate_driver(), std::move(setups), false)[0]);
        body(member);
        if (!member.hierarchy) return;
        for (void* part : member.hierarchy->release()) library_double().destroy(part);
      });
  }
  void run(std::vector<HierarchyRoute> routes, Body body) {
    run(
        std::move(routes), [](Member&) {}, std::move(body));
  }
  Rank ranks() const { return grid_.ranks(); }

 private:
  Grid grid_;
  std::shared_ptr<LibraryGroup> whole_;
};

/// What a rank puts in, and what must come out of so many ranks.
inline std::vector<Value> input_of(Rank rank, std::size_t count) {
  std::vector<Value> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = (rank + 1) * 1000 + static_cast<Value>(i);
  return values;
}
inline std::vector<Value> sum_of(Rank ranks, std::size_t count) {
  std::vector<Value> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = ranks * (ranks + 1) / 2 * 1000 + ranks * static_cast<Value>(i);
  return values;
}

}  // namespace ddl::test
