// BriefCall: a small call within a host, or one whose blocks are read where they are by their readers alone,
// ready to be made again and again: which messages it sends and takes, and where their elements lie, is
// worked out once. What is left to do is to write the messages, and to take what has come
// (communicator_at_once.cpp, communicator_left.cpp).
//
// Thread safety: none; it belongs to who makes the calls of its communicator.
#pragma once

#include <span>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/room.hpp"
#include "core/collective/call.hpp"
#include "core/collective/own_calls.hpp"
#include "core/plan/plan_store.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl {

class BriefCall {
 public:
  static constexpr Rank kMostRanks = 512;  // of a communicator

  /// Where a step has elements: so many bytes from the beginning of a buffer of the call.
  struct Place {
    Source source;
    std::ptrdiff_t offset;
  };
  struct BriefStep {
    const Step* step;
    std::uint32_t flow, index;  // of the plan
    std::uint32_t first_peer;   // see peers()
    Header header;              // but for its seq
    Place own, into;
    Elements count;
  };

  BriefCall() = default;
  BriefCall(const BriefCall&) = delete;
  BriefCall& operator=(const BriefCall&) = delete;
  /// A call that is_possible().
  void make(const Call& call, PreparedPlan& plan, CommId comm, Rank me, SharedMemoryTransport& local);
  /// One that differs in its counts, their places and its fingerprint alone, and is_possible(): at less cost,
  /// if its messages are the same ones. False: they are not, and it has to be made.
  bool recount(const Call& call);
  /// Whether a call is small enough, or its blocks are read where they are by their readers alone, and that
  /// plan is about whole blocks.
  static bool is_possible(const Call& call, const PreparedPlan& plan, Rank ranks);

  const Call& call() const { return call_; }
  PreparedPlan& plan() const { return *plan_; }
  const OwnCalls::Note& note() const { return note_; }
  const std::vector<BriefStep>& steps() const { return steps_; }
  /// Those of the step, in its order.
  std::span<SharedMemoryTransport::Peer* const> peers(const BriefStep& todo) const {
    return {peers_.data() + todo.first_peer, todo.step->peers};
  }
  /// The ranks that it sends to without hearing back, and hears from without answering, see Credit. The
  /// former are the plan's, but of a pairwise call.
  std::span<const Rank> to() const { return to_; }
  std::span<const Rank> from() const { return from_; }
  /// Whether its blocks are read where they are; of a pairwise call, the longest.
  bool is_read() const { return is_read_in_place(plan_->plan, call_.bytes()); }
  bool needs_credit() const { return !to_.empty() || !from_.empty(); }
  std::byte* at(const Place& place) const { return at(place, call_.in, call_.out); }
  /// Of a communicator of one rank: copies between such buffers what it has to. Threads may do so at once.
  void copy_alone(const void* in, void* out) const;

  /// A reduction that is not among Op may not be done under the engine's lock. So the messages of the step
  /// that reduces, the last one, are copied, in the order in which they are folded, and the caller combines
  /// them with the own elements when it has let go.
  void leave_to_caller(const BriefStep& step, std::span<const void* const> sources);
  void combine_what_is_left();

  /// The call is made again, with other buffers. It has begun when start_time() says so, or already.
  void use(const void* in, void* out, std::uint64_t number, Nanoseconds began = 0) {
    call_.in = in;
    call_.out = out;
    call_.number = number;
    call_.began = began;
  }
  /// It is about to be made: prefetches the lines of its first messages, which their readers have had, while
  /// the rest is decided.
  void prefetch_first_entries() const {
    if (steps_.empty() || steps_[0].step->verb != Verb::send) return;
    for (const SharedMemoryTransport::Peer* peer : peers(steps_[0]))
      SharedMemoryTransport::prefetch_entry(*peer, steps_[0].header.bytes);
  }
  /// Unless it has done so: sees when the call began. That is a tenth of such a call, so that it is put off
  /// until somebody needs to know.
  void start_time() {
    if (!has_begun()) call_.began = now();
  }
  bool has_begun() const { return call_.began != 0; }
  /// Where its plan counts such calls.
  PreparedPlan::Use& use_of_plan() {
    if (!use_) use_ = &plan_->use_of(call_.counted_as());
    return *use_;
  }

 private:
  // What becomes of a step of the plan.
  enum class Part : std::uint8_t { none, of_credit, step };
  static Part part_of(const Call& call, const Plan& plan, const Step& step);
  static std::byte* at(const Place& place, const void* in, void* out) {
    return static_cast<std::byte*>(place.source == Source::input ? const_cast<void*>(in) : out) +
           place.offset;
  }
  bool has_same_parts(const Call& call) const;
  void set_elements(BriefStep& step, Fingerprint fingerprint) const;

  Call call_{};
  PreparedPlan* plan_ = nullptr;
  PreparedPlan::Use* use_ = nullptr;  // once it was asked for
  OwnCalls::Note note_{};
  std::span<const Rank> to_, from_;
  std::vector<Rank> pairs_to_, pairs_from_;  // of a pairwise call
  std::vector<BriefStep> steps_;
  std::vector<Part> parts_;                          // of a pairwise call
  std::vector<SharedMemoryTransport::Peer*> peers_;  // of all steps
  const BriefStep* left_ = nullptr;                  // to the caller, and its sources but the own one
  Room left_sources_;
};

}  // namespace ddl
