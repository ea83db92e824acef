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
// on the way. check_waits_for() tests it. Small calls do without these tokens, see credit.hpp.
//
// Where blocks are of unequal length, a segment is the same piece of each that is long enough. A message may
// be empty, and is sent all the same, so that what bounds early arrivals holds as above. But in a pairwise
// call there is none, in either direction, where two ranks have nothing for each other: a rank has as many
// segments as its longest block takes. And none that is empty where the other direction's is read in its
// sender's buffer, or is small, but in the first call of a communicator.
//
// Where elements travel narrower than they are in memory (PlanChoice::wire), what is sent between hosts is
// made in a buffer of the segment, which the wire reads from: the segment ends when all of it is read. What
// is sent within the host is made in the block that its receivers read.
//
// One rule: the buffers of the call stay untouched by the program until done().
// Thread safety: none; the engine's lock is held.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/room.hpp"
#include "core/collective/call.hpp"
#include "core/collective/completion.hpp"
#include "core/collective/reduce_copy.hpp"
#include "core/plan/plan_store.hpp"
#include "core/transport/block_copy.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl {

/// Payload that is handed to other hosts over a rail.
struct WireBytes {
  Bytes sent = 0, in_memory = 0;  // the latter: of the same elements, which may travel narrower
};
/// By rail.
void add(std::vector<WireBytes>& to, std::span<const WireBytes> more);

/// Set in the number of a call between two ranks.
inline constexpr Seq kBetweenTwo = Seq{1} << 31;

class Operation;

/// What an operation sends: a step of its plan, for one segment.
struct Sending {
  const Operation& operation;
  const Step& step;
  Header header;
  bool is_oldest;  // of the segments under way
};

/// How an operation sends: implemented by its communicator.
class Sender {
 public:
  virtual ~Sender() = default;
  /// Sends the payload as message `step` of a segment. False: no room now.
  virtual bool send(const Sending& sending, std::span<const std::byte> payload,
                    std::uint32_t& unfinished) = 0;
  /// The same in two halves, for a local send whose payload is made in place: where to write `bytes` of it,
  /// null when there is no room now; then post() that message.
  virtual std::byte* claim(const Sending& sending, Bytes bytes, Outgoing& message) = 0;
  /// As claim(), to answer in the very block that the only receiver's message came in: its payload, which is
  /// then given up with post() and not released. Null when that is not possible.
  virtual std::byte* claim_answer(const Sending& sending, const View& asked, Outgoing& message) = 0;
  virtual void post(const Outgoing& message) = 0;
  /// How a payload gets to a place that was claimed.
  virtual BlockCopy& block_copy() = 0;
  /// As send(), within the host, of a payload that is read where it is; counts in `unfinished` until it has.
  /// Where it is joint its sender takes part, see Communicator::help_readers().
  virtual bool send_single_copy(const Sending& sending, std::span<const std::byte> payload, bool is_joint,
                                std::uint32_t& unfinished) = 0;
  /// Gets what has come like that, or a part of it for now; if it is refused, it comes again, staged.
  virtual SharedMemoryTransport::Fetched fetch(const View& view, std::byte* into) = 0;
  /// Work on memory alone, of that many bytes. From kLongWork on others may use the engine meanwhile, but for
  /// advance(): it takes several microseconds, leaving the lock a tenth of one.
  static constexpr Bytes kLongWork = 64 << 10;
  virtual void work(Bytes bytes, const std::function<void()>& body) = 0;
  /// Sees to it that all that was sent to these ranks of the job on other hosts leaves without further
  /// progress calls; counts in `unfinished`.
  virtual void flush(std::span<const Rank> to, std::uint32_t& unfinished) = 0;
};

/// Whether this thread is one of the engine's and not the program's; set where such a thread begins.
bool& is_engine_thread();

/// Where a block of a buffer of a call begins, in bytes from the beginning of the buffer.
inline std::ptrdiff_t offset_of(const Call& call, Source source, std::uint32_t block) {
  const BlockLayout& layout = source == Source::input ? call.in_blocks : call.out_blocks;
  if (!layout.offsets) return static_cast<std::ptrdiff_t>(block * call.bytes());
  return layout.offsets[block] * static_cast<std::ptrdiff_t>(size_of(call.type));
}

/// The same in memory.
inline std::byte* block_at(const Call& call, Source source, std::uint32_t block) {
  auto* first = static_cast<std::byte*>(source == Source::input ? const_cast<void*>(call.in) : call.out);
  return first + offset_of(call, source, block);
}

/// Elements of the block that a step of its plan is about.
inline Elements count_of(const Call& call, const Step& step) {
  const BlockLayout& layout = step.verb == Verb::send ? call.in_blocks : call.out_blocks;
  return layout.counts ? layout.counts[step.rank] : call.count;
}

/// How much of a range lies below `end`.
inline Elements within(const Range& range, Elements end) {
  return std::min(range.first + range.count, std::max(range.first, end)) - range.first;
}

/// How far its messages go that way or the other.
inline Elements reach_of(const Call& call, const Step& step) {
  if (!call.pairwise) return call.count;
  return std::max(call.in_blocks.counts[step.rank], call.out_blocks.counts[step.rank]);
}

/// What lies in one segment and is read where it is ends its sender's call only when it has been read: no
/// token or empty message has to come back. Whether that step is about such a one; alike at both ends.
bool is_answered_by_reading(const Call& call, const Plan& plan, const Step& step);

class Operation {
 public:
  /// What it is going to do, and who waits for it; the plan must outlive the operation. Reusable: bind()
  /// again after done().
  void bind(PreparedPlan& prepared, const Call& call, CommId comm, Seq seq, Rank me, Completion* completion);
  /// Begins, after bind(): from now on it sends and takes messages. Whether its result is written past the
  /// cache, unless it goes over a wire, which reads it again at once; whether its plan's flow of tokens is
  /// left out, or what else Credit stands for.
  void open(bool streams, bool without_tokens);
  bool is_open() const { return is_open_; }

  /// After open(): the call will also tell where its time went, see Observed::dimensions.
  void time_dimensions(int dimensions);
  /// After open(): the flows before that one, and so many of its steps, have been done by somebody else; past
  /// the last flow, all have.
  void skip_steps(std::size_t flow, std::uint32_t steps);

  bool advance(Sender& sender);
  /// Whether advance() may find anything to do: a message came, or it was held up by what makes none.
  bool is_stirred() const { return is_stirred_; }
  bool done() const {
    return is_open_ && segments_finished_ == segments_ && unfinished_ == 0 && !sent_on_wire_;
  }
  Seq seq() const { return seq_; }
  Completion* completion() const { return completion_; }
  /// What it may have under way at once.
  Bytes bytes_under_way() const { return bytes_under_way_; }
  const Call& call() const { return call_; }
  PreparedPlan& prepared() const { return *prepared_; }
  Fingerprint fingerprint() const { return fingerprint_; }
  /// For people: the call, and what its elements travel as.
  std::string title() const { return title_of(call_, prepared_->choice.wire); }

  /// Whether such a message is part of its plan.
  bool expects(const Header& header) const {
    return prepared_->plan.find_expected(header.tag, header.from) >= 0;
  }
  enum class Taken : std::uint8_t { yes, later, never };
  /// Takes an arrived message: `later` when its segment is not open yet, `never` when no such message, of so
  /// many bytes, is expected, or it has come before.
  Taken take(const Header& header, const View& view);
  /// Notes that a message said that its sender had nothing older under way; see Communicator::kept_block().
  void note_sender_was_alone() { ++alone_senders_; }
  bool all_senders_were_alone() const { return alone_senders_ == prepared_->plan.expected.size(); }
  /// See MessageHandler. From then on nothing else is taken in the place of that message.
  std::byte* place_for(const Header& header);
  void leave_place(const Header& header);
  /// What the plan of this call hands to other hosts on each rail, up to the last one used: what the report
  /// compares with the rail.
  std::span<const WireBytes> wire_bytes() const { return wire_bytes_; }
  /// What it hands to others, on this host too, narrower than it is in memory; each receiver counts.
  const WireBytes& narrowed_bytes() const { return narrowed_sent_; }
  /// See Observed.
  const std::vector<Nanoseconds>& rail_times() const { return rail_times_; }
  const std::vector<Nanoseconds>& dimension_times() const { return dimension_times_; }
  /// Releases what has arrived; after a failure.
  void drop();
  /// After a failure, before the program has its buffers back, see SharedMemoryTransport::withdraw_place().
  void withdraw_places(Nanoseconds until);
  /// Whom it waits for: ranks of the communicator whose messages are missing, or not fetched yet.
  std::vector<Rank> waiting_for() const;
  /// Counts sends that are not through.
  const std::uint32_t* unfinished() const { return &unfinished_; }
  std::uint32_t* unfinished() { return &unfinished_; }

 private:
  enum class Arrival : std::uint8_t { missing, being_placed, complete };
  struct Run {  // one segment under way
    std::uint32_t segment = 0;
    bool open = false;
    std::uint32_t flows_left = 0;
    std::uint32_t reading = 0;           // sends between hosts that still read its own memory
    std::vector<std::uint32_t> counter;  // per flow: steps done
    std::vector<Nanoseconds> since;      // per flow: end of its last step, where dimensions are timed
    std::vector<View> views;             // per expected message
    std::vector<Arrival> arrived;
    Room fetched;  // see fetches_to()
  };

  void open(Run& run, std::uint32_t segment);
  bool is_oldest(const Run& run) const;
  Run* run_of(const Header& header);
  bool advance(Run& run, Sender& sender);
  std::uint32_t run_steps(Run& run, const Step* step, std::uint32_t left, Sender& sender);
  bool send_step(Run& run, const Step& step, Sender& sender);
  bool fetch_step(Run& run, const Step& step, Sender& sender);
  bool narrow_step(Run& run, const Step& step, Sender& sender);
  bool send_narrowed(Run& run, const Step& step, Sender& sender);
  std::byte* fetches_to(Run& run, const Step& step);
  std::byte* travels_at(const Run& run, const Step& step);
  void land_step(const Run& run, const Step& step, std::byte* forward, std::byte* travels, Sender& sender);
  bool send_staged(const Run& run, const Step& step, std::span<const std::byte> payload, Sender& sender);
  std::byte* claim_forward(Run& run, const Step& landed, const Step& next, Sender& sender, Outgoing& message);
  Sending sending_of(const Run& run, const Step& step) const;
  std::uint32_t place_of(const Run& run) const { return static_cast<std::uint32_t>(&run - runs_.data()); }
  Range range_of(const Run& run, const Step& step) const;
  std::byte* at(const Run& run, Source source, std::uint32_t block, Elements first) const;
  void note_rail_time(const Flow& flow);
  void note_dimension_time(Nanoseconds& since, const Step& step);
  Bytes bytes_on(Fabric fabric, Elements count) const {
    return narrows(wire_, fabric) ? wire_.bytes(count) : count * element_;
  }
  bool all_arrived(const Run& run, const Step& step) const;
  static bool has_all_of(const Run& run, std::uint32_t expected);
  const SliceTable& table(const Run& run) const { return run.segment + 1 == segments_ ? tail_ : full_; }

  void cut(const PreparedPlan& prepared, const Call& call);
  void count_sent();
  void count_sent(const Step& step, Elements elements, Elements times);
  bool only_sends() const;
  bool has_message(const Run& run, const Step& step) const;
  void place_narrowed(const Plan& plan);

  PreparedPlan* prepared_ = nullptr;
  std::uint64_t cut_for_ = 0;  // serial of the plan that the slice tables were made for
  Elements cut_count_ = 0;
  std::uint64_t cut_lengths_ = 0;
  bool cut_pairwise_ = false;
  Completion* completion_ = nullptr;
  bool is_open_ = false, is_stirred_ = false, without_tokens_ = false;
  std::size_t alone_senders_ = 0;
  Bytes bytes_under_way_ = 0;
  Call call_{};
  CommId comm_ = 0;
  Seq seq_ = 0;
  Rank me_ = 0;
  Fingerprint fingerprint_ = 0;
  Bytes element_ = 1;
  Elements segment_elements_ = 0, scratch_elements_ = 0;  // the latter: of a block of scratch
  std::uint32_t segments_ = 0, segments_opened_ = 0, segments_finished_ = 0, unfinished_ = 0;
  bool sent_on_wire_ = false;  // since the last flush
  std::vector<Nanoseconds> rail_times_, dimension_times_;
  Store store_ = Store::cached;
  SliceTable full_, tail_;
  std::vector<WireBytes> wire_bytes_;  // by rail
  WireBytes narrowed_sent_;
  WireFormat wire_;             // of the plan
  std::vector<Bytes> travels_;  // by step: where in a run's part of narrowed_ it is narrowed to
  Bytes narrowed_of_run_ = 0;
  Room narrowed_;  // by run
  std::vector<Run> runs_;
  Room scratch_;  // by run and block
};

}  // namespace ddl
