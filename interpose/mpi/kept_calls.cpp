#include "interpose/mpi/kept_calls.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ddl::mpi {

bool KeptCall::has(const Lists& other, Rank ranks) const {
  auto own = lists.begin();
  for (const int* list : other) {
    if (!list) continue;
    if (own == lists.end() || !std::equal(list, list + ranks, own)) return false;
    own += ranks;
  }
  return own == lists.end();
}

void KeptCall::note_counts(std::optional<std::uint64_t> counts, const Lists& of_ranks, Rank ranks) {
  alike->counts = counts;
  set_lists(of_ranks, ranks);
}

void KeptCall::set_lists(const Lists& of_ranks, Rank ranks) {
  lists.clear();
  for (const int* list : of_ranks)
    if (list) lists.insert(lists.end(), list, list + ranks);
}

// Some that take turns need not be made for another count each time. To count lists anew takes 0.15 us, and
// to see that it need not be done half of that; but those kept by themselves are looked through one after the
// other.
KeptCall* KeptCalls::find_alike(const SaidCall::Words& alike, const SaidCall& said, const Lists& lists,
                                Rank ranks) {
  constexpr int kMostExactly = 2, kMostByLists = 16;
  auto* one = const_cast<KeptCall*>(find(alike, {}, ranks));
  if (!one) return nullptr;
  const bool is_by_lists = one->blocks != nullptr;
  if (!is_by_lists && one->is_for(said, lists, ranks)) return one;
  const int most = is_by_lists && kept_ < most_of(ranks) / 2 ? kMostByLists : kMostExactly;
  if (one->alike->kept_exactly < most && is_made_again(said.words(), lists, ranks)) {
    ++one->alike->kept_exactly;
    return nullptr;
  }
  return one;
}

bool KeptCalls::is_made_again(const SaidCall::Words& said, const Lists& lists, Rank ranks) {
  std::uint64_t hash = SaidCall::hash_of(said);
  for (const int* list : lists)
    for (Rank rank = 0; list && rank < ranks; ++rank)
      hash = (hash ^ static_cast<std::uint64_t>(list[rank])) * 0x9e3779b97f4a7c15ull;
  if (made_.empty()) made_.resize(std::bit_ceil(at_least(64, ranks)));
  auto& [last, before] = made_[hash >> 48 & (made_.size() - 1)];
  const auto mark = static_cast<std::uint32_t>(hash >> 16) | 1;
  if (last == mark || before == mark) return true;
  before = std::exchange(last, mark);
  return false;
}

void KeptCalls::add(KeptCall call, const Lists& lists, Rank ranks) {
  call.set_lists(lists, ranks);
  has_some_by_bytes |= SaidCall::is_by_bytes(call.said);
  if (2 * ++kept_ > calls_.size()) grow();
  insert(std::move(call));
}

void KeptCalls::insert(KeptCall call) {
  std::size_t at = place_of(call.said);
  while (calls_[at].call) at = (at + 1) % calls_.size();
  calls_[at] = std::move(call);
}

// Of communicators that a program makes for a few calls each.
void KeptCalls::grow() {
  std::vector<KeptCall> all(std::max(kFewest, 2 * calls_.size()));
  all.swap(calls_);
  for (KeptCall& one : all)
    if (one.call) insert(std::move(one));
}

void KeptCalls::clear() {
  calls_ = std::vector<KeptCall>();
  kept_ = 0;
  has_some_by_bytes = false;
}

}  // namespace ddl::mpi
