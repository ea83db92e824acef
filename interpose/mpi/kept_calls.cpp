#include "interpose/mpi/kept_calls.hpp"

namespace ddl::mpi {

bool KeptCalls::is_made_again(const SaidCall& said) {
  const std::uint64_t hash = said.hash();
  std::uint32_t& last = made_[hash >> 58];
  const auto mark = static_cast<std::uint32_t>(hash >> 16) | 1;
  if (last == mark) return true;
  last = mark;
  return false;
}

void KeptCalls::add(const KeptCall& call) {
  if (!calls_) calls_ = std::make_unique<std::array<KeptCall, kPlaces>>();
  std::size_t at = place_of(call.said);
  while ((*calls_)[at].call) at = (at + 1) % kPlaces;
  (*calls_)[at] = call;
  ++kept_;
}

void KeptCalls::clear() {
  if (calls_) calls_->fill({});
  kept_ = 0;
}

}  // namespace ddl::mpi
