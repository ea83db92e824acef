#include "core/stream/call_batches.hpp"

namespace ddl {

void CallBatches::begin(std::size_t calls) {
  parts_.clear();
  which_.clear();
  is_first_.assign(calls, true);
  next_.assign(calls, kLast);
}

void CallBatches::add(std::size_t index, const StreamCall& call) {
  which_.push_back(index);
  parts_.push_back(part_of(call));
}

void CallBatches::chain() {
  cut_batches(parts_, rule_.largest_batch, batches_);
  last_.assign(batches_.bytes.size(), kLast);
  for (std::size_t i = 0; i < which_.size(); ++i) {
    std::size_t& last = last_[batches_.of[i]];
    if (last != kLast) {
      next_[last] = which_[i];
      is_first_[which_[i]] = false;
    }
    last = which_[i];
  }
}

}  // namespace ddl
