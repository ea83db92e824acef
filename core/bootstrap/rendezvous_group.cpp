#include "core/bootstrap/rendezvous_group.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace ddl::rendezvous {
namespace {

constexpr Rank kMostRanks = 1 << 20;

}  // namespace

std::string RendezvousGroup::refusal(Rank rank, Rank size) const {
  if (!failure_.empty()) return failure_;
  if (size < 1 || size > kMostRanks)
    return fmt::format("a communicator of {} ranks is not possible; it has 1 to {}", size, kMostRanks);
  if (rank < 0 || rank >= size)
    return fmt::format("there is no rank {} among {} ranks; they count from 0", rank, size);
  if (size_ > 0 && size != size_)
    return fmt::format(
        "rank {} says that there are {} ranks, those who came before it say {}; give all the "
        "same number",
        rank, size, size_);
  if (members_.count(rank))
    return fmt::format("there is a rank {} already; give each process or thread another rank", rank);
  return {};
}

void RendezvousGroup::join(Rank rank, Rank size) {
  size_ = size;
  members_.try_emplace(rank);
  ++joined_;
  if (left_ > 0) fail("a rank left before all had come");
}

void RendezvousGroup::bring(Rank rank, Blob blob) {
  Member& member = members_.at(rank);
  if (!failure_.empty()) return;
  if (member.brought) return fail(fmt::format("rank {} came twice to round {}", rank, round_));
  if (left_ > 0) return fail(fmt::format("rank {} has more to exchange, others have left already", rank));
  member.brought = true;
  member.blob = std::move(blob);
  ++brought_;
}

void RendezvousGroup::leave(Rank rank) {
  members_.at(rank).left = true;
  ++left_;
  if (waits()) fail(fmt::format("rank {} left while others waited for it", rank));
}

void RendezvousGroup::lose(Rank rank) {
  members_.at(rank).left = true;
  ++left_;
  fail(Error::sentence(fmt::format("rank {} is gone", rank),
                       "its process ended, it gave up a call, or its connection broke",
                       "its own output tells more"));
}

void RendezvousGroup::give_up(double waited_s) {
  std::string what = joined_ < size_ ? fmt::format("{} of {} did not come within {:g} s of the first",
                                                   missing(), size_, waited_s)
                                     : fmt::format("{} of {} did not come to round {} within {:g} s",
                                                   missing(), size_, round_, waited_s);
  fail(Error::sentence(what, "all ranks of a communicator must create it together",
                       "see what keeps it, or set DDL_TIMEOUT higher"));
}

void RendezvousGroup::close() {
  if (!all_left()) fail("the process that keeps it has ended the rendezvous");
}

std::vector<RendezvousGroup::Blob> RendezvousGroup::take_round() {
  std::vector<Blob> blobs;
  for (auto& [rank, member] : members_) {  // a map is in the order of its keys
    blobs.push_back(std::move(member.blob));
    member = {};
  }
  brought_ = 0;
  ++round_;
  return blobs;
}

// The first cause counts; what follows from it is no news.
void RendezvousGroup::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

// "rank 3" or "ranks 3, 4 and 7 more"
std::string RendezvousGroup::missing() const {
  constexpr int kListed = 8;
  bool all_here = joined_ == size_;
  std::string text;
  int count = 0;
  for (Rank rank = 0; rank < size_; ++rank) {
    auto member = members_.find(rank);
    if (member != members_.end() && (!all_here || member->second.brought)) continue;
    if (++count <= kListed) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > kListed) text += fmt::format(" and {} more", count - kListed);
  return (count == 1 ? "rank " : "ranks ") + text;
}

}  // namespace ddl::rendezvous
