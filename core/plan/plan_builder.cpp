#include "core/plan/plan_builder.hpp"

#include <algorithm>
#include <numeric>

namespace ddl {
namespace {

std::uint64_t mix(std::uint64_t key, std::uint64_t value) {
  std::uint64_t x = (key ^ (value + 0x9e3779b97f4a7c15ull)) * 0xbf58476d1ce4e5b9ull;
  return x ^ (x >> 31);
}

Tag tag_of(const Piece& piece, Purpose purpose) {
  std::uint64_t key = mix(piece.key, static_cast<std::uint64_t>(purpose.phase));
  key = mix(key, static_cast<std::uint64_t>(purpose.dimension));
  return mix(key, static_cast<std::uint64_t>(purpose.round));
}

}  // namespace

std::vector<LaneCut> cut_lanes(std::span<const std::uint32_t> share, std::span<const RailId> rail) {
  std::vector<LaneCut> lanes;
  std::uint32_t parts = std::accumulate(share.begin(), share.end(), 0u), first = 0;
  for (std::size_t lane = 0; lane < share.size(); ++lane) {
    RailId used = rail.empty() ? static_cast<RailId>(lane) : rail[lane];
    if (share[lane] > 0) lanes.push_back({lane, used, first, first + share[lane], parts});
    first += share[lane];
  }
  return lanes;
}

Piece PlanBuilder::begin_lane(const LaneCut& cut, std::span<const int> order) {
  rail_ = cut.rail;
  order_ = order;
  plan_.slices.push_back({kWholeSegment, cut.first, cut.last, cut.parts});
  return {static_cast<SliceId>(plan_.slices.size() - 1), mix(0, cut.lane + 1)};
}

Piece PlanBuilder::mirrored(const LaneCut& cut) {
  plan_.slices.push_back({kWholeSegment, cut.parts - cut.last, cut.parts - cut.first, cut.parts});
  return {static_cast<SliceId>(plan_.slices.size() - 1), mix(0, cut.lane + 1)};
}

Piece PlanBuilder::cut(Piece piece, Rank index, Rank parts) {
  auto first = static_cast<std::uint32_t>(index);
  plan_.slices.push_back({piece.slice, first, first + 1, static_cast<std::uint32_t>(parts)});
  return {static_cast<SliceId>(plan_.slices.size() - 1), mix(piece.key, std::uint64_t{first} + 1)};
}

void PlanBuilder::send(Place own, const Piece& piece, Purpose purpose, std::span<const Rank> to) {
  std::vector<Rank> local, wire;
  for (Rank peer : to) (grid_.same_host(rank_, peer) ? local : wire).push_back(peer);
  if (!wire.empty()) add(Verb::send, own, Fabric::wire, piece, purpose, wire);
  if (!local.empty()) add(Verb::send, own, Fabric::local, piece, purpose, local);
}

void PlanBuilder::reduce(Place own, const Piece& piece, Purpose purpose, std::span<const Rank> from,
                         std::size_t own_rank, Place into) {
  Step& step = add(Verb::reduce, own, Fabric::local, piece, purpose, from);
  step.own_rank = static_cast<std::uint32_t>(own_rank);
  step.into = into.source;
  step.into_block = into.block;
}

void PlanBuilder::reduce_over_sent(Source own, const Piece& piece, Purpose purpose,
                                   std::span<const Rank> from, std::size_t own_rank) {
  reduce(own, piece, purpose, from, own_rank);
  plan_.steps.back().after_sends =
      std::any_of(from.begin(), from.end(), [&](Rank peer) { return !grid_.same_host(rank_, peer); });
}

void PlanBuilder::copy(const Piece& piece, Purpose purpose, Rank from, Place into) {
  Step& step = add(Verb::copy, Source::output, Fabric::local, piece, purpose, {&from, 1});
  step.into = into.source;
  step.into_block = into.block;
  step.blocks = into.blocks;
}

void PlanBuilder::keep(const Piece& piece, Place own, Place into) {
  Step& step = add(Verb::copy, own, Fabric::local, piece, {Phase::move, 0}, {});
  step.into = into.source;
  step.into_block = into.block;
}

// The step that has just made it does so in passing.
Source PlanBuilder::round(const Piece& piece, Source own) {
  Step* last = plan_.flows.back().count > 0 ? &plan_.steps.back() : nullptr;
  const bool makes_it = last && last->verb == Verb::reduce && last->slice == piece.slice &&
                        last->into == Source::output && own == Source::output;
  if (!makes_it) {
    add(Verb::copy, own, Fabric::local, piece, {Phase::move, 0}, {});
    last = &plan_.steps.back();
  }
  last->rounds = true;
  return Source::output;
}

void PlanBuilder::take_turns(std::span<const std::size_t> ends) {
  std::vector<Flow> all;
  for (std::size_t turn = 0; all.size() < plan_.flows.size(); ++turn)
    for (std::size_t lane = 0, first = 0; lane < ends.size(); first = ends[lane++])
      if (first + turn < ends[lane]) all.push_back(plan_.flows[first + turn]);
  plan_.flows = std::move(all);
}

Plan PlanBuilder::take() {
  plan_.seal();
  for (Expected& message : plan_.expected)
    message.fabric = grid_.same_host(rank_, message.from) ? Fabric::local : Fabric::wire;
  return std::move(plan_);
}

Piece PlanBuilder::nothing() {
  if (!nothing_) {
    plan_.slices.push_back({kWholeSegment, 0, 0, 1});
    nothing_ = Piece{static_cast<SliceId>(plan_.slices.size() - 1), 0};
  }
  return *nothing_;
}

void PlanBuilder::send_token(std::span<const Rank> to, Rank round) {
  std::size_t first = plan_.steps.size();
  send(Source::input, nothing(), {Phase::token, 0, round}, to);
  for (std::size_t s = first; s < plan_.steps.size(); ++s) plan_.steps[s].is_token = true;
}

void PlanBuilder::await_tokens(std::span<const Rank> from, Rank round) {
  if (from.empty()) return;
  add(Verb::copy, Source::output, Fabric::local, nothing(), {Phase::token, 0, round}, from).is_token = true;
}

Step& PlanBuilder::add(Verb verb, Place own, Fabric fabric, const Piece& piece, Purpose purpose,
                       std::span<const Rank> peers) {
  int dimension = order_.empty() ? purpose.dimension : order_[static_cast<std::size_t>(purpose.dimension)];
  Step step{};
  step.verb = verb;
  step.own = own.source;
  step.own_block = own.block;
  step.blocks = own.blocks;
  step.into = Source::output;
  step.fabric = fabric;
  step.dimension = static_cast<std::uint8_t>(dimension);
  step.rail = rail_;
  step.slice = piece.slice;
  step.tag = tag_of(piece, purpose);
  step.peer = static_cast<std::uint32_t>(plan_.peers.size());
  step.peers = static_cast<std::uint32_t>(peers.size());
  step.rank = static_cast<std::uint32_t>(block_of_);
  plan_.steps.push_back(step);
  plan_.peers.insert(plan_.peers.end(), peers.begin(), peers.end());
  ++plan_.flows.back().count;
  return plan_.steps.back();
}

}  // namespace ddl
