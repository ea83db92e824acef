// What is known of gloo's contexts: whether their calls go to the engine, and what they need there.
//
// A context is told from a later one at the same address by a weak count on it. All ranks of one conclude
// alike, in its first call that could go to the engine: see Meeting. Where gloo fails in that meeting
// they need not, but then the context is of no use to gloo either. The meeting has a thread of its own, since
// it may never end: a rank without the shim does not come. So calls that have waited for some seconds are
// made by gloo, see EarlyCalls; and when such a call, which needs all ranks, is done, and they have not met
// even then, this rank will say no in a meeting. Thread safety: all.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/api/engine_api.h"
#include "core/base/types.hpp"
#include "interpose/gloo/layout.hpp"
#include "interpose/gloo/meeting.hpp"
#include "interpose/gloo/routes.hpp"

namespace ddl::gloo {

/// Does a call as gloo would. What it throws passes through.
using Original = void (*)(const void* options);

/// Who makes a call: gloo_early before the ranks have met.
enum class Maker : std::uint8_t { engine, gloo, gloo_early };

/// One of gloo's contexts, on our side.
class EngineContext : public std::enable_shared_from_this<EngineContext> {
 public:
  EngineContext(const std::shared_ptr<Context>& of, const Place& place);
  ~EngineContext();
  EngineContext(const EngineContext&) = delete;
  EngineContext& operator=(const EngineContext&) = delete;

  bool is_of(const std::shared_ptr<Context>& context) const {
    return !original_.owner_before(context) && !context.owner_before(original_);
  }
  bool is_over() const { return original_.expired(); }
  Rank rank() const { return rank_; }
  Rank size() const { return size_; }

  /// Who makes the call of that key. The first one has all ranks meet, by `all_reduce`. Waits for that, but
  /// no longer than the call's timeout, and some seconds where gloo can make it.
  Maker maker_of(std::uint64_t key, const std::shared_ptr<Context>& context,
                 std::chrono::milliseconds timeout, Original all_reduce);
  /// Gloo has made a call early that no rank can end before all have begun it.
  void all_were_early();
  /// How to make a call of that class. It must be served. See Routes.
  Routes::Choice begin(Routes::Class of_class, std::uint32_t tag, std::uint64_t key,
                       std::uint64_t timeout_ms);
  void end(const Routes::Choice& route) { routes_.end(route); }
  /// A call on the engine; false: see failure().
  bool run(const ddl_context_call& call) { return engine_->run(context_, &call) != 0; }
  /// No call works any more, and the other ranks hear that this one is gone.
  void fail(const std::string& why) { engine_->fail(context_, why.c_str()); }
  std::string failure() const { return engine_->failure(context_); }
  /// "" where it is served, or nobody has asked.
  std::string why_not() const;
  bool has_joined() const { return phase_ == Phase::served; }
  std::string report_part() const { return engine_->report_part(context_); }
  void write_report(const std::vector<std::string>& parts) const;

 private:
  enum class Phase : std::uint8_t { fresh, meeting, served, left };
  struct Round;

  using Lock = std::unique_lock<std::mutex>;
  void start_meeting(const std::shared_ptr<Context>& context, Original all_reduce);
  bool leaves_early(std::uint64_t key, std::chrono::milliseconds timeout, Lock& lock);
  void give_up(Lock& lock);
  std::string meet(const std::shared_ptr<Context>& context, Original all_reduce);
  void begin(Meeting& meeting);
  void join(Meeting& meeting);
  std::string conclude(const Meeting& meeting) const;
  void end_meeting(const std::string& why_not);

  const std::weak_ptr<Context> original_;
  const Rank rank_, size_;
  mutable std::mutex mutex_;
  std::condition_variable concluded_;
  std::atomic<Phase> phase_ = Phase::fresh;
  EarlyCalls early_;
  std::atomic<bool> has_early_ = false;  // that others have made
  bool all_came_ = false;
  std::chrono::steady_clock::time_point patient_until_;
  std::string why_not_;
  std::string trouble_;  // this rank's, in the meeting's thread
  const ddl_context_api* engine_ = nullptr;
  ddl_context* context_ = nullptr;
  bool may_measure_ = false;
  Routes routes_;
};

using EngineContextList = std::vector<std::shared_ptr<EngineContext>>;

class EngineContexts {
 public:
  /// The one of this context; made where there is none; null where it is no context that we know. Those whose
  /// originals are gone are taken out, and handed to the caller: to end them may take a while.
  std::shared_ptr<EngineContext> of(const std::shared_ptr<Context>& context, EngineContextList& over);
  /// All, the first made first.
  EngineContextList all() const;

 private:
  mutable std::mutex mutex_;
  EngineContextList all_;
};

}  // namespace ddl::gloo
