#include "core/plan/plan_builder.hpp"

#include <algorithm>

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

Piece PlanBuilder::begin_lane(std::size_t lane, LaneId rail, std::uint32_t first, std::uint32_t last,
                              std::uint32_t parts, std::span<const int> order) {
  rail_ = rail;
  order_ = order;
  plan_.slices.push_back({kWholeSegment, first, last, parts});
  return {static_cast<SliceId>(plan_.slices.size() - 1), mix(0, lane + 1)};
}

Piece PlanBuilder::cut(Piece piece, Rank index, Rank parts) {
  auto first = static_cast<std::uint32_t>(index);
  plan_.slices.push_back({piece.slice, first, first + 1, static_cast<std::uint32_t>(parts)});
  return {static_cast<SliceId>(plan_.slices.size() - 1), mix(piece.key, std::uint64_t{first} + 1)};
}

void PlanBuilder::send(Source own, const Piece& piece, Purpose purpose, std::span<const Rank> to) {
  std::vector<Rank> local, wire;
  for (Rank peer : to) (grid_.same_host(rank_, peer) ? local : wire).push_back(peer);
  if (!wire.empty()) add(Verb::send, own, Fabric::wire, piece, purpose, wire);
  if (!local.empty()) add(Verb::send, own, Fabric::local, piece, purpose, local);
}

void PlanBuilder::reduce(Source own, const Piece& piece, Purpose purpose, std::span<const Rank> from,
                         std::size_t own_rank) {
  add(Verb::reduce, own, Fabric::local, piece, purpose, from).own_rank = static_cast<std::uint32_t>(own_rank);
}

void PlanBuilder::reduce_over_sent(Source own, const Piece& piece, Purpose purpose,
                                   std::span<const Rank> from, std::size_t own_rank) {
  reduce(own, piece, purpose, from, own_rank);
  plan_.steps.back().after_sends =
      std::any_of(from.begin(), from.end(), [&](Rank peer) { return !grid_.same_host(rank_, peer); });
}

void PlanBuilder::copy(const Piece& piece, Purpose purpose, Rank from) {
  add(Verb::copy, Source::output, Fabric::local, piece, purpose, {&from, 1});
}

Step& PlanBuilder::add(Verb verb, Source own, Fabric fabric, const Piece& piece, Purpose purpose,
                       std::span<const Rank> peers) {
  int dimension = order_.empty() ? purpose.dimension : order_[static_cast<std::size_t>(purpose.dimension)];
  plan_.steps.push_back({verb, own, fabric, static_cast<std::uint8_t>(dimension), rail_, piece.slice,
                         tag_of(piece, purpose), static_cast<std::uint32_t>(plan_.peers.size()),
                         static_cast<std::uint32_t>(peers.size()), 0, 0, false});
  plan_.peers.insert(plan_.peers.end(), peers.begin(), peers.end());
  ++plan_.flows.back().count;
  return plan_.steps.back();
}

}  // namespace ddl
