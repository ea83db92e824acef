#include "core/bootstrap/peer_watch.hpp"

#include "core/base/clock.hpp"

namespace ddl {
namespace {

constexpr double kGrace_s = 5;  // for what a rank has sent before it went
constexpr Nanoseconds kLookEvery = 20'000'000;

}  // namespace

RendezvousClient::Blobs PeerWatch::exchange(std::span<const std::byte> blob) {
  std::lock_guard lock(mutex_);
  if (gone_) throw Error("this rank has left the communicator");
  return rendezvous_->exchange(blob);
}

void PeerWatch::begin() {
  std::lock_guard lock(patience_mutex_);
  patience_.erase(std::this_thread::get_id());
}

// While the ranks are in a round, its end tells.
std::string PeerWatch::overdue() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  if (Nanoseconds when = now(); when - looked_ > kLookEvery) {
    looked_ = when;
    if (news_.empty()) news_ = rendezvous_->look();
  }
  if (news_.empty()) return {};
  std::lock_guard of_patience(patience_mutex_);
  Timeout& mine = patience_.try_emplace(std::this_thread::get_id(), kGrace_s).first->second;
  return mine.is_over() ? news_ : std::string();
}

void PeerWatch::vanish() {
  gone_ = true;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    rendezvous_->interrupt();
    lock.lock();
  }
  rendezvous_->vanish();
}

}  // namespace ddl
