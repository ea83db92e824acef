// Communicator: the ranks that take part in a collective, their grid, their plans and the operations under
// way.
//
// Operations of one communicator are advanced one after the other, in the order of the calls, which MPI and
// NCCL make the same on all ranks. Calls between two ranks are numbered per pair of ranks and direction, the
// others know nothing of them; those started together are under way together, so that nobody who sends to one
// rank and receives from another waits for ever. Operations of different communicators are independent of
// each other and complete in any order. Thread safety: none; the engine's lock is held.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/collective/operation.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/task_planner.hpp"
#include "core/transport/shared_memory.hpp"

namespace ddl {

/// What a communicator is made of; the same on all its members but for `me`.
struct CommunicatorSpec {
  CommId id = 0;
  std::vector<Rank> members;     // ranks in the job
  Rank me = 0;                   // index in members
  std::vector<HostIndex> hosts;  // of each member
  PlanLimits limits;
  Grid grid;         // of hosts, or of the dimensions the user gave
  StagingArea area;  // of this rank, at least limits.staging bytes; empty where no host has two members
  std::vector<Bytes> areas;  // offset of every member's area in its own region; empty as above
};

/// The transports a communicator sends on. `local` always exists; `wire` is null in a job of one host.
struct Fabrics {
  SharedMemoryTransport* local = nullptr;
  Transport* wire = nullptr;
};

class Communicator : public Outlet {
 public:
  /// Of its area, beside what the plans stage.
  static Bytes one_shot_staging();
  Communicator(CommunicatorSpec spec, Fabrics fabrics);
  ~Communicator() override;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const CommunicatorSpec& spec() const { return spec_; }
  const Grid& grid() const { return spec_.grid; }
  Rank size() const { return static_cast<Rank>(spec_.members.size()); }

  /// Queues a call, to be done by that plan; advance() works on it. The operation belongs to the communicator
  /// until retire().
  Operation* start(const Call& call, PreparedPlan& plan);
  /// The same for calls between two ranks, all of them under way at once.
  std::vector<Operation*> start_together(std::span<const Call> calls);
  /// As start(), for a caller that waits anyway. A small all-reduce within a host is done from begin to end,
  /// without an operation, if everybody comes within so many pauses: null. (2 ranks, 4 bytes, median of eight
  /// alternating runs: 0.48 us, by an operation 0.79 to 1.09, Open MPI 0.57 to 0.61.)
  Operation* run(const Call& call, PreparedPlan& plan, int pauses);
  /// Counts the operation and takes it back.
  void retire(Operation* operation);
  bool advance();
  bool idle() const { return queue_.empty(); }

  /// Takes an arrived message for now or later. Returns what is wrong with it, "" when nothing.
  std::string take(const Header& header, const View& view);
  /// See Inbox.
  std::byte* place_for(const Header& header) const;
  /// Whom the operation under way waits for, as ranks in the job.
  std::vector<Rank> waiting_for() const;
  const Operation* under_way() const { return queue_.empty() ? nullptr : queue_.front().operation; }
  void drop();
  /// What was found wrong while early messages were looked at; "" when nothing.
  const std::string& problem() const { return problem_; }

  /// The plan for calls of its kind, root and size class, made at its first use; of an all-reduce that nobody
  /// selects a way for, the one that the cost model chooses. Error where there is none, alike on all members.
  PreparedPlan& plan_for(const Call& call);
  /// Another one for the size class of `bytes`; it lives as long as the communicator.
  PreparedPlan& prepare(const PlanChoice& choice, Bytes bytes);
  /// What the planner knows of the machine; a change makes plan_for() choose anew.
  const PlanLimits& limits() const { return spec_.limits; }
  void learn(const Machine& machine);
  /// From now on its operations tell their dimension_times().
  void time_dimensions() { times_dimensions_ = true; }
  /// Moves the counts since the last time to `into`, and the bytes of payload that the plans of these calls
  /// hand to the wire to `wire`, by rail.
  void collect(Counters& into, std::vector<Bytes>& wire);

  bool send(const Sending& sending, std::span<const std::byte> payload, std::uint32_t& unfinished) override;
  std::byte* claim(const Sending& sending, Bytes bytes) override;
  std::byte* claim_answer(const Sending& sending, const View& asked) override;
  void post() override { fabrics_.local->post(claimed_); }
  void flush(std::uint32_t& unfinished) override { fabrics_.wire->flush(unfinished); }

 private:
  struct Queued {
    Operation* operation;
    std::uint64_t batch;  // those of one are under way together
  };
  Operation* enqueue(const Call& call, PreparedPlan& plan, Seq seq);
  bool advance_batch();
  bool remove_done();
  Operation* addressee(const Header& header) const;
  Seq next_between(const Call& call);
  template <class Body>
  void each_under_way(const Body& body) const {
    for (std::size_t i = 0; i < queue_.size() && queue_[i].batch == queue_[0].batch; ++i)
      body(*queue_[i].operation);
  }
  bool can_run_at_once(const Call& call, const PreparedPlan& prepared) const;
  bool reduce_arrived(const Call& call, const PreparedPlan& prepared, const Header& header, int pauses);
  void count(const Call& call, PreparedPlan& prepared);
  Outgoing addressed(const Header& header, const Step& step, const PreparedPlan& prepared) const;
  PreparedPlan& make_task_plan(Task task, Bytes bytes);
  PreparedPlan& add_plan(Task task, Bytes bytes, Plan plan);
  bool use_layout_of(const PreparedPlan& prepared);
  bool choose_shared_block(Outgoing& message);
  bool choose_block(Outgoing& message, const Sending& sending);
  std::byte* layout_begin() const { return spec_.area.begin + 2 * one_shot_bytes_; }
  void stage_in_turn(Outgoing& message) const;
  void take_early();
  std::string refuse(const Header& header, View view, const Operation& operation) const;
  // A sender alone finds out that its receiver makes another call: by the token that comes before the data.
  struct Warning {
    Outgoing message;  // shows the receiver what call this is
    Fabric fabric;
    std::string problem;  // of this rank, once the message is out
    bool sent = false;
    std::uint32_t unfinished = 0;
  };
  Warning warning_of(const Operation& operation, std::string problem) const;
  void warn_receiver();

  CommunicatorSpec spec_;
  Fabrics fabrics_;
  Bytes one_shot_bytes_ = 0;                          // of one of the two blocks at the begin of the area
  std::uint64_t one_shot_turn_ = 0;                   // operations that used one
  std::vector<Bytes> wire_;                           // by rail, see collect()
  const PreparedPlan* layout_ = nullptr;              // whose blocks the area holds
  PreparedPlan shared_;                               // stands for all sends between two, as a layout
  std::vector<std::byte*> blocks_;                    // of that layout: [slot][local send]
  std::vector<std::unique_ptr<PreparedPlan>> plans_;  // all ever made: operations under way point to them
  std::array<PreparedPlan*, 64> plan_of_class_{};     // by logarithm, see plan_for()
  std::map<std::tuple<Kind, Rank, Bytes>, PreparedPlan*> plan_of_task_;  // by kind, root, size class
  std::vector<std::unique_ptr<Operation>> operations_;                   // all ever made
  std::vector<Operation*> idle_;
  std::deque<Queued> queue_;
  Operation* current_ = nullptr;  // that is being advanced
  std::uint64_t next_batch_ = 0;
  std::unordered_map<Rank, Seq> sent_to_, received_from_;  // calls between two, by the other rank
  std::vector<Early> early_, scratch_;
  Outgoing claimed_{};  // of claim(), for post()
  std::string problem_;
  std::optional<Warning> warning_;
  Seq next_seq_ = 0;
  bool times_dimensions_ = false;
};

}  // namespace ddl
