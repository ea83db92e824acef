#include "core/transport/single_copy.hpp"

#include <algorithm>
#include <utility>

namespace ddl {

bool SingleCopySends::add(Outgoing& message, int ranks) {
  const auto readers = static_cast<std::uint32_t>(message.to.size());
  message.block = pool_.take(kBitsBytes + readers * sizeof(std::uint16_t), readers + 1, message.need);
  if (!message.block) return false;
  refused_of(message.block).store(0, std::memory_order_relaxed);
  for (int place = 0; place < std::min(ranks, kPlaces); place += kWord)
    through_of(message.block, place).store(0, std::memory_order_relaxed);
  joint_of(message.block).begin(readers == 1 && message.is_joint ? message.payload.size() : 0);
  ++*message.unfinished;
  sent_.push_back(message);
  note_oldest();
  return true;
}

void SingleCopySends::move_count(std::uint32_t& from, std::uint32_t& to) {
  for (Outgoing& sent : sent_)
    if (sent.unfinished == &from) sent.unfinished = &to;
  to += std::exchange(from, 0);
}

void SingleCopySends::refuse(std::byte* block, int place) {
  const std::uint32_t number = refused_of(block).fetch_add(1, std::memory_order_relaxed);
  places_of(block)[number] = static_cast<std::uint16_t>(place);
}

void SingleCopySends::note_oldest() {
  const auto* head = sent_.empty() ? nullptr : &head_of(sent_.front().block);
  oldest_.store(head, std::memory_order_relaxed);
}

}  // namespace ddl
