// DevicePath: the all-reduces of a communicator whose ranks are on one host, done by the GPU (core/device/
// device_calls.hpp). All ranks agree, when the communicator is created, whether there is one.
//
// The rules: submit() and then, in the same order, agree(), once all ranks are known to make that call;
// look_after() again and again by one thread while a call is under way. Thread safety: all but agree_on and
// destruction. Ownership: its window, which it gives back when the streams are done.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "core/bootstrap/peer_watch.hpp"
#include "core/stream/gpu_window.hpp"
#include "core/stream/stream_call.hpp"

namespace ddl {

class DevicePath {
 public:
  struct Place {
    Rank rank = 0, size = 1;
    bool one_host = true;  // all ranks
    Bytes staging = 0;     // DDL_GPU_STAGING_BYTES of this rank
  };
  struct Agreed {
    std::unique_ptr<DevicePath> path;  // null on all ranks alike
    std::string why;                   // then
  };
  /// Rounds of all ranks. Throws Error where these fail.
  static Agreed agree_on(PeerWatch& watch, cuda::Context context, const Place& place);
  ~DevicePath();

  /// Whether a call goes this way; alike on all ranks.
  bool serves(const StreamCall& call) const;
  /// What is smaller is left to the host.
  Bytes least_bytes() const { return least_bytes_; }
  /// One rank alone: nobody has to agree, and nothing has to be looked after.
  bool is_alone() const { return size_ == 1; }
  /// `announce`: see DeviceCalls::submit.
  Submitted submit(const StreamCall& call, const std::function<void()>& announce);
  /// On the next call that has not been agreed to.
  void agree() { calls_->agree(++agreed_); }
  std::string failure() const { return calls_->failure(); }

  /// How many calls are done that were under way when it was asked the last time.
  int newly_passed();
  /// The name of the oldest call under way; null when there is none.
  const char* under_way() const;
  /// After a failure, again and again: streams go on without results.
  void let_go() { calls_->let_go(); }

 private:
  DevicePath() = default;
  static std::string set_up(cuda::Context context, const Place& place, gpu_window::Own& own);

  Rank size_ = 1;
  Bytes least_bytes_ = 0;
  gpu_window::Own own_;
  bool is_shown_ = false;  // and not all ranks have agreed yet: others may use it, who think so
  std::unique_ptr<DeviceCalls> calls_;
  std::uint64_t agreed_ = 0;  // the worker's
  mutable std::mutex mutex_;  // of what follows
  std::deque<const char*> names_;
  std::uint64_t passed_ = 0;
};

}  // namespace ddl
