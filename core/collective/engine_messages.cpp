// What the engine does with messages that come, and where its failure is kept.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"

namespace ddl {
namespace {

// Waiting for communicators that this rank has not made: nobody is that far ahead.
constexpr Bytes kMostEarly = 256 << 20;

// At most, of what lies in a block, see ReceivePool.
Bytes room_of(const View& view) {
  constexpr Bytes kLeastBlock = 4096;
  return view.bytes() <= View::kInline ? 0 : std::bit_ceil(std::max(view.bytes(), kLeastBlock));
}

}  // namespace

void Engine::deliver(const Header& header, const View& view) {
  auto found = communicators_.find(header.comm);
  if (found == communicators_.end()) {
    // What comes after the last call of a communicator that is gone; nobody answers for one that is not made.
    if (header.comm == kStatus) return take_status(header, view);
    if (header.tag >= Communicator::kShown) return View(view).release();
    early_.push_back({header, view});
    early_bytes_ += sizeof(Early) + room_of(view);
    if (early_bytes_ > kMostEarly)
      fail_locked(
          fmt::format("{} messages wait for communicators that this rank has not made; the last is of "
                      "rank {} there",
                      early_.size(), header.from));
    return;
  }
  Communicator& communicator = *found->second;
  const bool was_idle = communicator.idle();
  if (std::string problem = communicator.take(header, view); !problem.empty()) fail_locked(problem);
  if (was_idle) activate_unless_idle(communicator);  // it has something wrong to tell
}

std::byte* Engine::place_for(const Header& header) {
  auto found = communicators_.find(header.comm);
  return found == communicators_.end() ? nullptr : found->second->place_for(header);
}

bool Engine::may_come_from(Rank sender, const Header& header) {
  if (header.comm == kStatus) return header.from == sender;
  if (header.from < 0) return true;  // that is found out later
  auto found = communicators_.find(header.comm);
  if (found == communicators_.end())
    return header.tag >= Communicator::kShown ||  // is dropped, see deliver()
           early_senders_.try_emplace({header.comm, header.from}, sender).first->second == sender;
  const std::vector<Rank>& ranks = found->second->members().ranks;
  const auto from = static_cast<std::size_t>(header.from);
  return from >= ranks.size() || ranks[from] == sender;
}

// The communicator has been made: those whose messages waited for it are its members.
void Engine::forget_early_senders(CommId id, const std::vector<Rank>& ranks) {
  auto it = early_senders_.lower_bound({id, 0});
  for (; it != early_senders_.end() && it->first.first == id; it = early_senders_.erase(it)) {
    const auto from = static_cast<std::size_t>(it->first.second);
    if (from < ranks.size() && ranks[from] != it->second)
      fail_locked(fmt::format("rank {} of the job has sent what is of rank {}", it->second, ranks[from]));
  }
}

void Engine::leave_place(const Header& header) {
  if (auto found = communicators_.find(header.comm); found != communicators_.end())
    found->second->leave_place(header);
}

void Engine::peer_failed(Rank peer, const std::string& why) {
  fabrics_.local->activity().gave_up.store(peer + 1, std::memory_order_relaxed);
  fail_locked(fmt::format("rank {} of the job is gone ({})", peer, why));
}

std::string Engine::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Engine::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  fail_locked(why);
}

// Only said once: the first cause is the one that helps.
void Engine::fail_locked(const std::string& why) {
  if (failed()) return;
  failure_ = why;
  // Those who wait for it hear of it. That of a rank which is gone has been noted before.
  Activity& mine = fabrics_.local->activity();
  if (mine.gave_up.load(std::memory_order_relaxed) == 0) {
    std::copy_n(why.begin(), std::min(why.size(), mine.failure.size() - 1), mine.failure.begin());
    mine.gave_up.store(fabrics_.local->rank() + 1, std::memory_order_release);
  }
  // No peer reads or writes the buffers of a call that has failed.
  fabrics_.local->withdraw_payloads();
  const Nanoseconds until = now() + SharedMemoryTransport::kLongestPiece;
  fabrics_.local->stop_offering();
  for (const auto& [id, communicator] : communicators_) communicator->withdraw_places(until);
  failed_.store(true, std::memory_order_release);
}

}  // namespace ddl
