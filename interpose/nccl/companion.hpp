// Companion: what stands beside one communicator of NCCL's whose large all-reduces go by plans: for each
// dimension a smaller communicator of NCCL's and a stream, and for the last one, where NCCL has sockets only,
// a communicator of ours besides, which goes over our rails. See core/plan/hierarchy_plan.hpp.
//
// Order: the streams wait for what the caller's has so far, and the caller's for the last step; calls return
// at once. A kernel that waits for its peers must not keep the one they wait for from starting: so all ranks
// enqueue the same steps in the same order, and the kernels of the smaller communicators are capped
// (capped_config), so that those of all dimensions fit on a GPU side by side.
//
// Where there are several ways, some calls are tried each way (companion_tuner.hpp).
//
// Thread safety: one thread at a time, as NCCL demands; state(), let_rails_go() and release() from any.
// Ownership: the streams, events and rails; the smaller communicators are ended by who releases them.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/device/cuda_driver.hpp"
#include "core/plan/hierarchy_plan.hpp"
#include "core/stream_api.h"
#include "interpose/nccl/companion_tuner.hpp"

namespace ddl::nccl {

class Companion;

/// A call and how it is done. Without steps the plan is one call of the original's: the tail.
struct Planned {
  Call call;
  HierarchyRoute way = HierarchyRoute::whole;
  HierarchyPlan plan = {};
  const char* why = nullptr;            // as a whole
  std::shared_ptr<Clocked> clock = {};  // a try
  std::shared_ptr<Companion> companion = {};
};

class Companion {
 public:
  Companion(ncclComm_t whole, const ddl_hierarchy& plans, void* context);
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  /// What the original said while the communicators were made; is_ready() when all went well.
  ncclResult_t split(std::size_t dimension, std::span<const std::byte> program_config);
  void note(ncclResult_t result);
  void make_streams();
  bool is_ready() const;
  /// The last dimension on our rails, whose ranks are to meet at that id; every rank takes part, and waits.
  bool may_have_rails() const { return has(HierarchyRoute::rails); }
  bool open_rails(const ncclUniqueId& id, const std::string& who, ddl_problem* problem);
  /// All ranks have them: else this one goes on without.
  void keep_rails(bool all_have_them);
  /// From now on the fastest way is looked for, where there are several. False: only the original is left.
  bool tune(MeetingSeat seat, int ranks);

  const HierarchyLayout& layout() const { return layout_; }
  /// Which of our groups in the last dimension this is; its first rank's number.
  const HierarchyDimension& last() const { return layout_.back(); }
  /// How many smaller communicators of NCCL's it needs, one for each dimension.
  std::size_t parts_wanted() const { return layout_.size() > 1 ? layout_.size() : 0; }
  bool is_large_enough(const Call& call) const;
  bool is_capturing(cudaStream_t stream) const;
  /// For the next call that is large enough. Not whose companion it is.
  Planned choose(const Call& call);

  /// One call: meet and start, where it is a try; begin, tail, each step and then its done, end; stop.
  ncclResult_t meet(const Planned& one) const;
  ncclResult_t start(const Planned& one) { return note_time(one, &Clocked::began); }
  ncclResult_t begin(const Planned& one);
  ncclResult_t tail(const Call& call, const HierarchyPlan& plan) const;
  ncclResult_t step(const Call& call, const HierarchyPlan& plan, std::size_t index);
  ncclResult_t done(const HierarchyPlan& plan, std::size_t index);
  ncclResult_t end(const Planned& one);
  ncclResult_t stop(const Planned& one) { return note_time(one, &Clocked::ended); }

  /// The first trouble here, on our rails or in one of the smaller communicators.
  ncclResult_t state() const;
  /// Lets the streams go on from our rails, whose results are undefined then. No trouble by itself.
  void let_rails_go();
  /// The smaller communicators, which the caller ends, or means to; with release() they are gone from here.
  std::vector<ncclComm_t> parts() const;
  std::vector<ncclComm_t> release();

 private:
  ncclResult_t check(cuda::Result result, const char* what);
  ncclResult_t note_time(const Planned& one, std::atomic<Nanoseconds> Clocked::*what);
  bool has(HierarchyRoute way) const;
  ncclResult_t issue_step(const Call& call, const HierarchyStep& step);
  ncclResult_t issue_on_rails(const Call& call, const HierarchyStep& step);
  cuda::Event event_of(std::size_t step);
  ncclComm_t part(std::size_t dimension) const;

  ncclComm_t whole_;
  HierarchyLayout layout_;
  HierarchyCut cut_;
  cuda::Context context_;
  std::vector<cuda::Stream> streams_;  // by dimension
  std::deque<cuda::Event> events_;     // of steps; made when first needed
  cuda::Event begin_ = nullptr, end_ = nullptr;
  std::atomic<ncclResult_t> trouble_{ncclSuccess};
  std::vector<HierarchyRoute> ways_;  // the first: where nothing is known
  ddl_stream_comm* rails_ = nullptr;
  std::atomic<bool> retired_{false};  // they are
  cuda::DevicePointer nothing_ = 0;   // a sum of it is how ranks meet
  std::unique_ptr<CompanionTuner> tuner_;
  mutable std::mutex mutex_;       // of what follows
  std::vector<ncclComm_t> parts_;  // by dimension; null when they are gone
};

/// Enqueues the calls, which are on different communicators, and counts them. Several: side by side, because
/// one thread may hold ranks that wait for each other.
ncclResult_t perform_planned(const std::vector<Planned>& calls);

}  // namespace ddl::nccl
