#include "core/native/peer_watch.hpp"

#include "core/base/clock.hpp"

namespace ddl {
namespace {

constexpr double kGrace_s = 5;  // for what a rank has sent before it went
constexpr Nanoseconds kLookEvery = 20'000'000;

}  // namespace

void PeerWatch::begin() {
  std::lock_guard lock(mutex_);
  patience_.reset();
}

std::string PeerWatch::overdue() {
  std::lock_guard lock(mutex_);
  if (Nanoseconds when = now(); when - looked_ > kLookEvery) {
    looked_ = when;
    if (news_.empty()) news_ = seat_->look();
  }
  if (news_.empty()) return {};
  if (!patience_) patience_.emplace(kGrace_s);
  return patience_->is_over() ? news_ : std::string();
}

void PeerWatch::vanish() {
  std::lock_guard lock(mutex_);
  seat_->vanish();
}

}  // namespace ddl
