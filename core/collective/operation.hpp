// Operation: a plan bound to the buffers of one call, advanced step by step. advance() moves what can move
// and returns; blocking calls, nonblocking ones and the progress thread all drive the same object.
//
// The buffers are worked through in segments, `window` of them at once: the next is opened when any of them
// is finished (in order would let one late message hold up the others: 16 MiB between hosts 39 instead of 33
// ms).
//
// What may arrive early is bounded, because a rank finishes a segment only after it has heard, in this
// segment, from everybody it has sent anything of it to: who has spoken has opened it. So all that may wait
// here for its time comes, per sender, from one window of one operation. In most collectives everybody
// depends on everybody, which is enough. Where that is not so (those with a root; a send) whoever receives
// sends a token as soon as it opens the segment, and who sends waits for it at the end: nothing waits for it
// on the way. check_waits_for() tests it.
//
// One rule: the buffers of the call stay untouched by the program until done().
// Thread safety: none; the engine's lock is held.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/collective/call.hpp"
#include "core/collective/landing.hpp"
#include "core/plan/choice.hpp"
#include "core/plan/plan.hpp"
#include "core/trace/counters.hpp"
#include "core/transport/transport.hpp"

namespace ddl {

/// Set in the number of a call between two ranks.
inline constexpr Seq kBetweenTwo = Seq{1} << 31;

/// What an operation sends: a step of its plan, for the segment in `place` of the window. Blocks belong to
/// places, so that none of a segment is ever held by a later one.
struct Sending {
  const Step& step;
  Header header;
  std::uint32_t place;
};

/// How an operation sends: implemented by its communicator.
class Outlet {
 public:
  virtual ~Outlet() = default;
  /// Sends the payload as message `step` of a segment. False: no room now.
  virtual bool send(const Sending& sending, std::span<const std::byte> payload,
                    std::uint32_t& unfinished) = 0;
  /// The same in two halves, for a local send whose payload is made in place: where to write `bytes` of it,
  /// null when there is no room now; then post(), before anything else is sent.
  virtual std::byte* claim(const Sending& sending, Bytes bytes) = 0;
  /// As claim(), to answer in the very block that the only receiver's message came in: its payload, which is
  /// then given up with post() and not released. Null when that is not possible.
  virtual std::byte* claim_answer(const Sending& sending, const View& asked) = 0;
  virtual void post() = 0;
  /// Sees to it that all that was sent between hosts leaves without further progress calls; counts in
  /// `unfinished`.
  virtual void flush(std::uint32_t& unfinished) = 0;
};

/// A plan for one size class of a communicator, where its blocks are and what it was used for.
struct PreparedPlan {
  Bytes size_class = 0;
  Task task;
  PlanChoice choice;  // of an all-reduce: that the plan was made from
  Plan plan;
  std::vector<Rank> to;             // the plan's peers, as ranks in the job
  std::vector<Bytes> block_offset;  // per local send, relative to the area of one window slot
  Bytes slot_bytes = 0;
  // All it does is to send everything to everybody of the host and to reduce: its blocks need no count of
  // their readers, see Communicator::stage_in_turn().
  bool is_one_shot = false;
  bool hears_wire = false;  // it receives from other hosts
  LaneId rails = 0;         // it sends on rails below this one; 0: never between hosts
  std::vector<std::pair<const char*, Tally>> uses;  // by collective
};

class Operation {
 public:
  /// Binds; the plan must outlive the operation. Reusable: bind() again after done().
  void bind(PreparedPlan& prepared, const Call& call, CommId comm, Seq seq, Rank me);

  /// The call just bound will also tell where its time went, see dimension_times().
  void time_dimensions(int dimensions);
  /// The first step of the only flow of the call just bound has been done by somebody else.
  void skip_first_step() { runs_[0].counter[0] = 1; }

  bool advance(Outlet& outlet);
  bool done() const { return segments_finished_ == segments_ && unfinished_ == 0 && !sent_on_wire_; }
  Seq seq() const { return seq_; }
  const Call& call() const { return call_; }
  PreparedPlan& prepared() const { return *prepared_; }
  Fingerprint fingerprint() const { return fingerprint_; }

  /// Whether such a message is part of its plan.
  bool expects(const Header& header) const {
    return prepared_->plan.find_expected(header.tag, header.from) >= 0;
  }
  enum class Taken : std::uint8_t { yes, later, never };
  /// Takes an arrived message: `later` when its segment is not open yet, `never` when no such message is
  /// expected.
  Taken take(const Header& header, const View& view);
  /// See Inbox.
  std::byte* place_for(const Header& header) const;
  /// Bytes of payload that the plan of this call hands to other hosts on each rail, up to the last one
  /// used: what the report compares with the rail.
  std::span<const Bytes> wire_bytes() const { return wire_bytes_; }
  /// How long each rail took for its part of the first window of segments, in which no rail waits for
  /// another; of a plan with several lanes.
  std::span<const Nanoseconds> rail_times() const { return rail_times_; }
  /// How long the flows of this call took for their steps of each dimension, waiting included, all flows and
  /// segments together: they overlap, so that only the proportions mean anything. Empty unless asked for.
  std::span<const Nanoseconds> dimension_times() const { return dimension_times_; }
  /// Releases what has arrived; after a failure.
  void drop();
  /// Whom it waits for: ranks of the communicator whose messages are missing.
  std::vector<Rank> waiting_for() const;

 private:
  struct Run {  // one segment under way
    std::uint32_t segment = 0;
    bool open = false;
    std::uint32_t flows_left = 0;
    std::uint32_t reading = 0;           // sends between hosts that still read its scratch
    std::vector<std::uint32_t> counter;  // per flow: steps done
    std::vector<Nanoseconds> since;      // per flow: end of its last step, where dimensions are timed
    std::vector<View> views;             // per expected message
    std::vector<std::uint8_t> arrived;
  };

  void open(Run& run, std::uint32_t segment);
  bool advance(Run& run, Outlet& outlet);
  std::uint32_t run_steps(Run& run, const Step* step, std::uint32_t left, Outlet& outlet);
  bool send_step(Run& run, const Step& step, Outlet& outlet);
  void land_step(const Run& run, const Step& step, std::byte* forward);
  std::byte* claim_forward(Run& run, const Step& landed, const Step* next, Outlet& outlet);
  Sending sending_of(const Run& run, const Step& step) const;
  std::uint32_t place_of(const Run& run) const { return static_cast<std::uint32_t>(&run - runs_.data()); }
  Range range_of(const Run& run, const Step& step) const;
  std::byte* at(const Run& run, Source source, std::uint32_t block, Elements first) const;
  void note_rail_time(const Flow& flow);
  void note_dimension_time(Nanoseconds& since, const Step& step);
  bool all_arrived(const Run& run, const Step& step) const;
  const SliceTable& table(const Run& run) const { return run.segment + 1 == segments_ ? tail_ : full_; }

  void cut(const PreparedPlan& prepared, const Call& call);

  PreparedPlan* prepared_ = nullptr;
  Call call_{};
  CommId comm_ = 0;
  Seq seq_ = 0;
  Rank me_ = 0;
  Fingerprint fingerprint_ = 0;
  Bytes element_ = 1;
  Elements segment_elements_ = 0;
  std::uint32_t segments_ = 0, segments_opened_ = 0, segments_finished_ = 0, unfinished_ = 0;
  bool sent_on_wire_ = false;  // since the last flush
  std::vector<Nanoseconds> rail_times_, dimension_times_;
  Store store_ = Store::cached;
  SliceTable full_, tail_;
  std::vector<Bytes> wire_bytes_;  // by rail
  std::vector<Run> runs_;
  std::unique_ptr<std::byte[]> scratch_;  // by run and block
  Bytes scratch_bytes_ = 0;
};

}  // namespace ddl
