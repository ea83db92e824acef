// HierarchicalCommunicator: what stands beside one communicator of a library (core/hierarchy/library.h) whose
// large all-reduces go by plans: for each dimension a smaller communicator of the library's and a stream, and
// for the last one, where the library has sockets only, one of the engine's besides, which goes over our
// rails. See core/plan/hierarchy_plan.hpp.
//
// Order: the streams wait for what the caller's has so far, and the caller's for the last step; calls return
// at once. A kernel that waits for its peers must not keep the one they wait for from starting: so all ranks
// enqueue the same steps in the same order, and who divides the communicator caps the kernels of its parts,
// so that those of all dimensions fit on a GPU side by side.
//
// Where there are several routes, some calls are tried by each (route_tuner.hpp). A call whose like has been
// made before, and that is no trial, allocates nothing here.
//
// Thread safety: one thread at a time, as NCCL demands; state(), let_rails_go() and release() from any.
// Ownership: the streams, events and rails; the smaller communicators are ended by who releases them.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/device/cuda_driver.hpp"
#include "core/hierarchy/library.h"
#include "core/hierarchy/route_tuner.hpp"
#include "core/plan/hierarchy_plan.hpp"

namespace ddl {

class HierarchicalCommunicator;

/// What all ranks have agreed on when the communicator was set up.
struct HierarchyShape {
  HierarchyLayout layout;
  HierarchyCut cut;
  std::vector<HierarchyRoute> routes;  // the first: where nothing is known
};

/// A call and how it is done. Without steps the plan is one call of the library's: the tail.
struct PlannedCall {
  HierarchyCall call;
  HierarchyRoute route = HierarchyRoute::whole;
  const HierarchyPlan* plan = nullptr;  // valid until the next choose()
  const char* why = nullptr;            // as a whole
  std::shared_ptr<Clocked> clock = {};  // a trial
  HierarchicalCommunicator* on = nullptr;
};

class HierarchicalCommunicator {
 public:
  /// `library` and `driver` must outlive this.
  HierarchicalCommunicator(const ddl_library& library, const cuda::Driver& driver, cuda::Context context,
                           void* whole, HierarchyShape shape);
  ~HierarchicalCommunicator();
  HierarchicalCommunicator(const HierarchicalCommunicator&) = delete;
  HierarchicalCommunicator& operator=(const HierarchicalCommunicator&) = delete;

  // For who sets it up (hierarchy_setup.hpp).

  /// What the library said while the communicators were made; is_ready() when all went well.
  void split(std::size_t dimension, const void* config);
  void note(int result);
  void make_streams();
  bool is_ready() const;
  /// The last dimension on our rails, whose ranks are to meet at that id; every rank takes part, and waits.
  bool may_have_rails() const { return has(HierarchyRoute::rails); }
  /// Returns why there are none, "" when all went well.
  std::string open_rails(const std::array<std::byte, DDL_RAILS_ID_BYTES>& id, const std::string& who);
  /// A rank has none: this one goes on without.
  void drop_rails();
  /// From now on the fastest route is looked for, where there are several. False: only the whole is left.
  bool tune(std::unique_ptr<Exchange> rounds, bool verbose);
  /// How many smaller communicators of the library's it needs, one for each dimension.
  std::size_t parts_wanted() const { return layout_.size() > 1 ? layout_.size() : 0; }
  /// Which of our groups in the last dimension this is; its first rank's number.
  const HierarchyDimension& last() const { return layout_.back(); }

  // For who makes calls.

  bool is_large_enough(Elements count, Bytes element_bytes) const;
  bool is_capturing(cuda::Stream stream) const;
  /// For the next call that is large enough.
  PlannedCall choose(const HierarchyCall& call);
  /// "2x4 on NCCL and rails"
  const std::string& name_of(HierarchyRoute route) const { return names_[static_cast<std::size_t>(route)]; }

  /// The first trouble here, on our rails or in one of the smaller communicators.
  int state() const;
  /// Lets the streams go on from our rails, whose results are undefined then. No trouble by itself.
  void let_rails_go();
  /// The smaller communicators, which the caller ends, or means to; with release() they are gone from here.
  std::vector<void*> parts() const;
  std::vector<void*> release();

 private:
  friend int enqueue(const ddl_library& library, std::span<const PlannedCall> calls);

  // One call: meet and start, where it is a trial; begin, tail, each step and then its done, end; stop.
  int meet(const PlannedCall& one) const;
  int start(const PlannedCall& one) { return note_time(one, &Clocked::began); }
  int begin(const PlannedCall& one);
  int tail(const PlannedCall& one) const;
  int step(const PlannedCall& one, std::size_t index);
  int done(const PlannedCall& one, std::size_t index);
  int end(const PlannedCall& one);
  int stop(const PlannedCall& one) { return note_time(one, &Clocked::ended); }

  int check(cuda::Result result, const char* what);
  int note_time(const PlannedCall& one, std::atomic<Nanoseconds> Clocked::*what);
  bool has(HierarchyRoute route) const;
  int issue(const HierarchyCall& call, const HierarchyStep& step);
  cuda::Event event_of(std::size_t step);
  void* part(std::size_t dimension) const;
  const HierarchyPlan& plan_of(HierarchyRoute route, Elements count, Bytes element_bytes);

  const ddl_library& library_;
  const cuda::Driver& driver_;
  const cuda::Context context_;
  void* const whole_;
  const HierarchyLayout layout_;
  const HierarchyCut cut_;
  std::array<std::string, 3> names_;  // by route
  std::map<std::tuple<HierarchyRoute, Elements, Bytes>, HierarchyPlan> plans_;
  std::vector<cuda::Stream> streams_;  // by dimension
  std::vector<cuda::Event> events_;    // of steps; made when first needed
  cuda::Event begin_ = nullptr, end_ = nullptr;
  std::atomic<int> trouble_{0};
  std::vector<HierarchyRoute> routes_;
  void* rails_ = nullptr;
  std::atomic<bool> retired_{false};  // they are
  cuda::DevicePointer nothing_ = 0;   // a sum of it is how ranks meet
  std::unique_ptr<RouteTuner> tuner_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<void*> parts_;  // by dimension; null when they are gone
};

/// Enqueues the calls, which are on different communicators of one library. Several: side by side, because
/// one thread may hold ranks that wait for each other.
int enqueue(const ddl_library& library, std::span<const PlannedCall> calls);

}  // namespace ddl
