// TaskPen: what the plans of all collectives but all-reduce are written with: steps, whose partners are noted
// for tokens; the ranks around this one; blocks that share flows.
//
// Thread safety: none, of one plan.
#pragma once

#include <algorithm>
#include <vector>

#include "core/plan/plan_builder.hpp"
#include "core/plan/task_choice.hpp"
#include "core/plan/token_partners.hpp"

namespace ddl {

class TaskPen {
 protected:
  TaskPen(const Grid& grid, const HostMap& map, Rank me, const TaskChoice& choice)
      : map_(map), me_(me), choice_(choice), build_(grid, me) {}

  // -- steps

  static constexpr Purpose kMove{Phase::move, 0};
  static Purpose block(Rank number) { return {Phase::move, 0, number}; }

  void send(Place own, const Piece& piece, Purpose purpose, const std::vector<Rank>& to) {
    build_.send(own, piece, purpose, to);
    heard_.sends_to(to);
  }
  void copy(const Piece& piece, Purpose purpose, Rank from, Place into) {
    build_.copy(piece, purpose, from, into);
    heard_.hears_from({&from, 1});
  }
  // In the order given, this rank at the place that its number, or that of its host, has among them.
  void fold(Place own, const Piece& piece, Purpose purpose, const std::vector<Rank>& from, Place into) {
    auto before = [&](Rank other) {
      int there = map_.host_of(other);
      return there == here() ? other < me_ : there < here();
    };
    build_.reduce(own, piece, purpose, from,
                  static_cast<std::size_t>(std::count_if(from.begin(), from.end(), before)), into);
    heard_.hears_from(from);
  }
  Place scratch(Rank number) {
    scratch_ = std::max(scratch_, static_cast<std::uint32_t>(number) + 1);
    return {Source::scratch, number};
  }

  std::vector<Piece> pieces_of(const Piece& piece, Rank parts) {
    if (parts == 1) return {piece};
    std::vector<Piece> pieces;
    for (Rank part = 0; part < parts; ++part) pieces.push_back(build_.cut(piece, part, parts));
    return pieces;
  }

  template <class Body>
  void in_flows(const std::vector<Rank>& blocks, const Body& body) {
    for (std::size_t f = 0; f < std::min(kMostFlows, blocks.size()); ++f) {
      build_.begin_flow();
      for (std::size_t i = f; i < blocks.size(); i += kMostFlows) {
        build_.begin_block(blocks[i]);
        body(blocks[i]);
      }
    }
    build_.begin_block(me_);
  }

  // -- ranks and hosts

  int here() const { return map_.host_of(me_); }
  int after(int host) const { return (host + 1) % map_.hosts(); }
  int next_host() const { return after(here()); }
  int last_host() const { return (here() + map_.hosts() - 1) % map_.hosts(); }
  // Of the chain from one host to another.
  int links(int from, int to) const { return (to - from + map_.hosts()) % map_.hosts(); }
  // From the next one around, so that not all begin with the same.
  std::vector<Rank> others_after() const {
    std::vector<Rank> others;
    for (Rank i = 1; i < map_.ranks(); ++i) others.push_back((me_ + i) % map_.ranks());
    return others;
  }
  std::vector<Rank> with_mates(std::vector<Rank> to) const {
    const std::vector<Rank> mates = map_.mates(me_);
    to.insert(to.end(), mates.begin(), mates.end());
    return to;
  }

  const HostMap& map_;
  const Rank me_;
  const TaskChoice& choice_;
  PlanBuilder build_;
  std::uint32_t scratch_ = 0;
  TokenPartners heard_;

 private:
  // Flows are looked at again and again while an operation is under way, so many blocks share a few.
  static constexpr std::size_t kMostFlows = 16;
};

}  // namespace ddl
