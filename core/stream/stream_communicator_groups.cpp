// All-reduces of one group as few operations.
#include <algorithm>

#include "core/stream/stream_communicator.hpp"

namespace ddl {

void StreamCommunicator::find_fusion(const Members& members) {
  const GradientSettings& settings = session_.job_map().gradients;
  const bool spans_hosts = members.grid.spans_hosts();
  batches_.emplace(staged_fusion_rule(settings.lazy), wire_rule(settings, members.size(), spans_hosts));
}

StreamCommunicator::State StreamCommunicator::submit_together(std::span<const StreamCall> calls,
                                                              Became* became) {
  if (State failed = state(); failed.trouble != Trouble::none) return failed;
  for (const StreamCall& call : calls)
    if (State wrong = refuse(call); wrong.trouble != Trouble::none) return wrong;
  std::lock_guard lock(grouping_);
  batches_->cut(calls, [this](const StreamCall& call) { return !is_for_device(call); });
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!batches_->is_first(i)) continue;
    const bool is_alone = batches_->next(i) == CallBatches::kLast;
    State state = is_alone ? submit(calls[i], became ? became + i : nullptr) : submit_batch(calls, i);
    if (state.trouble != Trouble::none) return state;
    for (std::size_t one = i; became && !is_alone && one != CallBatches::kLast; one = batches_->next(one))
      became[one] = {Where::host, static_cast<std::uint32_t>(i + 1), batches_->wire_of(calls[one]).as};
  }
  return {};
}

// Where one of its streams is captured, all are: NCCL has it so.
StreamCommunicator::State StreamCommunicator::submit_batch(std::span<const StreamCall> calls,
                                                           std::size_t first) {
  Entry& one = under_way_.take();
  gather(calls, first, one.host);
  const StreamCall& all = one.host.call;
  State claimed = claim(all.stream, all.name);
  for (cuda::Stream other : along_)
    if (claimed.trouble == Trouble::none) claimed = claim(other, all.name);
  if (claimed.trouble != Trouble::none) return one.release(), claimed;
  one.claims = 1 + static_cast<int>(along_.size());
  StagedBuffers buffers;
  buffers.block_bytes = all.count * size_of(all.type);
  buffers.pieces = pieces_;
  buffers.along = along_;
  const Submitted how = enqueue(one, buffers);
  return how == Submitted::kCapturing ? submit_apart(calls, first) : answer(how, calls[first]);
}

StreamCommunicator::State StreamCommunicator::submit_apart(std::span<const StreamCall> calls,
                                                           std::size_t first) {
  for (std::size_t i = first; i != CallBatches::kLast; i = batches_->next(i))
    if (State state = submit(calls[i]); state.trouble != Trouble::none) return state;
  return {};
}

// Of the streams the first call's has the batch, the others wait for it.
void StreamCommunicator::gather(std::span<const StreamCall> calls, std::size_t first, HostCall& into) {
  into.call = calls[first];
  into.call.in = into.call.out = 0;
  into.call.count = 0;
  into.wire = batches_->wire_of(calls[first]);
  into.shares.clear();
  into.lengths = 0;
  pieces_.clear();
  along_.clear();
  for (std::size_t i = first; i != CallBatches::kLast; i = batches_->next(i)) {
    const StreamCall& call = calls[i];
    const Elements room = batches_->room_of(call);
    const Bytes element = size_of(call.type);
    pieces_.push_back({call.in, call.out, call.count * element, room * element});
    into.shares.push_back({room, call.scalar});
    into.call.count += room;
    into.lengths = (into.lengths ^ call.count) * 0x9e3779b97f4a7c15ull | 1;
    if (call.stream != into.call.stream &&
        std::find(along_.begin(), along_.end(), call.stream) == along_.end())
      along_.push_back(call.stream);
  }
}

}  // namespace ddl
