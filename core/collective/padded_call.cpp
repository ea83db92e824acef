#include "core/collective/padded_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/partition.hpp"
#include "core/collective/operation.hpp"

namespace ddl {
namespace {

class PaddedCall {
 public:
  /// Blocks of up to `longest` elements are short.
  /// Those of later calls may be up to `most` bytes long.
  PaddedCall(const Call& call, Elements longest, Bytes most, const Members& members, Padding& padding);

  /// The call with all the short blocks.
  Call padded() const;
  /// After that one: puts its blocks where the program wants them. What is wrong with them, "" when nothing.
  std::string unpad();
  /// Of a pairwise call: with the longer ones.
  Call rest() const;

 private:
  struct Head {
    std::uint32_t length;               // elements of this block; kLong: it travels by itself
    std::uint32_t least, longest, all;  // what the rank has for other hosts: see BlocksBetweenHosts
  };
  static_assert(sizeof(Head) == kPaddedHead);
  static constexpr std::uint32_t kLong = ~std::uint32_t{0};
  static constexpr Bytes kMostInHead = ~std::uint32_t{0};  // of longest and all

  bool is_short(Elements count) const { return count > 0 && count <= longest_; }
  Bytes bytes_of(Elements count) const { return count * size_of(call_.type); }
  // What a rank has for itself does not travel.
  bool travels(Rank rank) const { return !call_.pairwise || rank != members_.me; }
  std::byte* given_to(Rank rank) const { return padding_.in.data() + static_cast<Bytes>(rank) * length_; }
  std::byte* taken_from(Rank rank) const { return padding_.out.data() + static_cast<Bytes>(rank) * length_; }
  void pad_pairs();
  std::uint32_t length_of(Elements count) const {
    return count <= longest_ ? static_cast<std::uint32_t>(count) : kLong;
  }
  Head head_from(Rank rank) const {
    Head head;
    std::memcpy(&head, taken_from(rank), sizeof head);
    return head;
  }
  std::string check_lengths() const;
  BlocksBetweenHosts between_hosts();

  const Call& call_;
  const Elements longest_;
  const Bytes most_;
  const Bytes head_, length_;  // the latter: of a padded block with its head
  const Members& members_;
  Padding& padding_;
};

PaddedCall::PaddedCall(const Call& call, Elements longest, Bytes most, const Members& members,
                       Padding& padding)
    : call_(call),
      longest_(longest),
      most_(most),
      head_(call.pairwise ? round_up(sizeof(Head), size_of(call.type)) : 0),
      length_(head_ + bytes_of(longest)),
      members_(members),
      padding_(padding) {
  const auto ranks = static_cast<Bytes>(members.size());
  // What is left there is of earlier calls of this communicator.
  if (padding.in.size() < ranks * length_) padding.in.resize(ranks * length_);
  if (padding.out.size() < ranks * length_) padding.out.resize(ranks * length_);
  if (call.pairwise) {
    pad_pairs();
  } else if (const Elements own = call.in_blocks.counts[members.me]; own > 0) {
    std::memcpy(given_to(0), call.in, bytes_of(own));
  }
}

void PaddedCall::pad_pairs() {
  const Rank ranks = members_.size();
  std::vector<Elements>&given = padding_.given, &taken = padding_.taken;
  given.assign(call_.in_blocks.counts, call_.in_blocks.counts + ranks);
  taken.assign(call_.out_blocks.counts, call_.out_blocks.counts + ranks);
  Head head{};
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (!travels(rank)) continue;
    if (!members_.is_here(rank)) {
      const Bytes bytes = bytes_of(given[r]);
      head.least += bytes > 0 && bytes <= kLeastPadded;
      head.longest = static_cast<std::uint32_t>(std::min(std::max<Bytes>(head.longest, bytes), kMostInHead));
      head.all = static_cast<std::uint32_t>(std::min(head.all + bytes, kMostInHead));
    }
    if (is_short(taken[r])) taken[r] = 0;
    if (!is_short(given[r])) continue;
    std::memcpy(given_to(rank) + head_, block_at(call_, Source::input, static_cast<std::uint32_t>(rank)),
                bytes_of(given[r]));
    given[r] = 0;
  }
  for (Rank rank = 0; rank < ranks; ++rank) {
    head.length = length_of(call_.in_blocks.counts[rank]);
    std::memcpy(given_to(rank), &head, sizeof head);
  }
}

// It is told from a call whose blocks the program gave that length by what the program's call is told by.
Call PaddedCall::padded() const {
  Call padded = call_;
  padded.in = padding_.in.data();
  padded.out = padding_.out.data();
  padded.count = length_ / size_of(call_.type);
  padded.in_blocks = padded.out_blocks = {};
  padded.fingerprint = 0;
  padded.pairwise = false;
  return padded;
}

std::string PaddedCall::unpad() {
  if (call_.pairwise)
    if (std::string wrong = check_lengths(); !wrong.empty()) return wrong;
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    const Elements count = call_.out_blocks.counts[rank];
    if (travels(rank) && is_short(count))
      std::memcpy(block_at(call_, Source::output, static_cast<std::uint32_t>(rank)), taken_from(rank) + head_,
                  bytes_of(count));
  }
  if (call_.pairwise) padding_.habit.learn(between_hosts(), most_);
  return "";
}

std::string PaddedCall::check_lengths() const {
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    const Elements awaited = call_.out_blocks.counts[rank];
    const std::uint32_t length = head_from(rank).length;
    if (!travels(rank) || length == length_of(awaited)) continue;
    const std::string has =
        length == kLong ? fmt::format("more than {}", longest_) : fmt::format("{}", length);
    return fmt::format(
        "rank {} of a communicator of {} has {} {} for rank {}, which awaits {}: what two ranks have for "
        "each other "
        "must have the same length on both",
        rank, members_.size(), has, name_of(call_.type), members_.me, awaited);
  }
  return "";
}

BlocksBetweenHosts PaddedCall::between_hosts() {
  if (padding_.pairs == 0)
    for (HostIndex host : members_.hosts)
      padding_.pairs += static_cast<std::uint64_t>(std::count_if(
          members_.hosts.begin(), members_.hosts.end(), [&](HostIndex other) { return other != host; }));
  BlocksBetweenHosts seen{padding_.pairs};
  for (Rank rank = 0; rank < members_.size(); ++rank) {
    const Head head = head_from(rank);
    seen.least += head.least;
    seen.longest = std::max<Bytes>(seen.longest, head.longest);
    seen.all += head.all;
  }
  return seen;
}

Call PaddedCall::rest() const {
  Call rest = call_;
  rest.in_blocks.counts = padding_.given.data();
  rest.out_blocks.counts = padding_.taken.data();
  return rest;
}

// Alike on all ranks, as the choice of a padded plan was.
PreparedPlan* packed_plan(Communicator& communicator, const Call& call, Padding& padding) {
  const Bytes bytes = size_class(call.bytes());
  for (const Padding::Packed& known : padding.packed)
    if (known.kind == call.kind && known.size_class == bytes) return known.plan;
  return padding.packed.emplace_back(call.kind, bytes, communicator.plans().packed_for(call.task(), bytes))
      .plan;
}

// Up to how many elements blocks are padded; 0: none are. Of an all-gather: not where padding would be most
// of what travels.
Elements padded_length(const Call& call, const Members& members, Padding& padding) {
  if (call.pairwise) return padding.habit.next() / size_of(call.type);
  Elements all = 0;
  for (Rank rank = 0; rank < members.size(); ++rank) all += call.out_blocks.counts[rank];
  return 2 * all >= call.count * static_cast<Elements>(members.size()) ? call.count : 0;
}

// The length to which blocks should have been padded: that of the longest, rounded up, where they fill a
// quarter of that in the mean; else the least, where half of them are no longer. 0: none.
Bytes best_length(const BlocksBetweenHosts& seen, Bytes most) {
  const Bytes whole = std::max(kLeastPadded, std::bit_ceil(seen.longest));
  if (whole <= most && 4 * seen.all >= seen.pairs * whole) return whole;
  return 2 * seen.least >= seen.pairs ? kLeastPadded : 0;
}

}  // namespace

// Where calls differ in turns the shorter length holds: what is longer goes by itself, which costs less than
// long padding in vain.
void PaddingHabit::learn(const BlocksBetweenHosts& seen, Bytes most) {
  const Bytes best = best_length(seen, most);
  length_ = best == 0 ? kLeastPadded : last_ == 0 ? best : std::min(best, last_);
  last_ = best;
  without_ = best > 0 ? 0 : pause_;
  pause_ = best > 0 ? kFirst : std::min(2 * pause_, kMost);
}

void run_padded(Engine& engine, Communicator& communicator, const Call& call, PreparedPlan& plan,
                Padding& padding) {
  const Members& members = communicator.members();
  const Elements longest = padded_length(call, members, padding);
  if (longest == 0) return engine.run(communicator, call, &plan);
  PaddedCall it(call, longest, plan.task_choice.padded, members, padding);
  const Call padded = it.padded();
  PreparedPlan* packed = packed_plan(communicator, padded, padding);
  if (!packed) return engine.run(communicator, call, &plan);
  engine.run_part(communicator, padded, packed);
  if (engine.failed()) return;
  if (const std::string wrong = it.unpad(); !wrong.empty()) return engine.fail(wrong);
  if (call.pairwise) engine.run_part(communicator, it.rest(), &plan);
  engine.count(call, plan);
}

}  // namespace ddl
