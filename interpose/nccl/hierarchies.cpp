#include "interpose/nccl/hierarchies.hpp"

#include <algorithm>
#include <string>

#include "core/hierarchy/hierarchy_setup.hpp"
#include "interpose/nccl/config.hpp"
#include "interpose/nccl/nccl_library.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

using Verb = Call::Verb;

HierarchicalCommunicator* hierarchy_of(const CommPtr& record) {
  return record ? record->hierarchy.get() : nullptr;
}

// A communicator that our rendezvous has served: there is a driver.
const cuda::Driver& driver() { return cuda::process_driver(cuda::Load::kOnDemand)->driver; }

HierarchyShape shape_of(const ddl_hierarchy& agreed) {
  HierarchyShape shape;
  for (int d = 0; d < agreed.dimensions; ++d)
    shape.layout.push_back(
        {agreed.dimension[d].extent, agreed.dimension[d].first, agreed.dimension[d].place});
  shape.cut = HierarchyCut::with_segment(agreed.segment_bytes);
  for (int i = 0; i < agreed.routes; ++i)
    shape.routes.push_back(static_cast<HierarchyRoute>(agreed.route[i]));
  return shape;
}

// What all ranks of a communicator have in a unit, if one has it.
bool is_by_all(const Call& call) {
  return call.verb != Verb::destroy_op && call.verb != Verb::send && call.verb != Verb::recv;
}

cuda::Stream stream_of(const Call& call) { return reinterpret_cast<cuda::Stream>(call.stream); }

// Why a call that has a communicator's unit for itself goes as it is; null: it has plans.
const char* why_flat(const Call& call, const HierarchicalCommunicator& on) {
  const bool is_known = call.type >= ncclInt8 && call.type <= ncclBfloat16;
  if (call.verb != Verb::all_reduce) return "no plan for this collective";
  if (call.op < ncclSum || call.op > ncclMin) return "operation";
  if (!is_known || !on.is_large_enough(call.count, bytes_of_type(call.type)))
    return "small, or of eight-bit floats";
  if (!call.in || !call.out) return "a null pointer";
  return on.is_capturing(stream_of(call)) ? "captured into a graph" : nullptr;
}

PlannedCall flat(const char* why) { return {.call = {}, .why = why}; }

}  // namespace

void finish_setups(std::vector<PendingSetup> setups) noexcept {
  guarded([&] {
    std::vector<HierarchySetup> wanted;
    std::vector<ncclComm_t> comms;
    for (PendingSetup& one : setups) {
      Creation& creation = one.creation;
      creation.host = one.outcome.host;
      if (*creation.at && one.outcome.splits_may_have_plans) follow_splits(creation);
      if (!*creation.at || one.outcome.hierarchy.dimensions == 0) {
        one.rounds.reset();  // the others of its ranks need not wait
        continue;
      }
      comms.push_back(*creation.at);
      wanted.push_back({*creation.at, static_cast<cuda::Context>(creation.context),
                        shape_of(one.outcome.hierarchy), capped_config(creation.config), who_is(creation),
                        std::move(one.rounds)});
    }
    if (wanted.empty()) return ncclSuccess;
    auto made = set_up_hierarchies(nccl_library(), driver(), std::move(wanted), environment().verbose > 0);
    for (std::size_t i = 0; i < made.size(); ++i)
      if (made[i]) attach(comms[i], [&](Comm& record) { record.hierarchy = std::move(made[i]); });
    return ncclSuccess;
  });
}

PlannedCall plan(const Call& call) {
  HierarchicalCommunicator& on = *call.record->hierarchy;
  if (call.verb == Verb::destroy_op) return flat(nullptr);
  if (const char* why = why_flat(call, on)) return flat(why);
  PlannedCall how = on.choose(
      {call.in, call.out, call.count, bytes_of_type(call.type), call.type, call.op, stream_of(call)});
  return how.clock || !how.plan->steps.empty() ? how : flat(how.why);
}

PlannedCall plan_in_group(const Call& call, std::span<const Call> group) {
  auto is_in_unit = [&](const Call& other) { return other.comm == call.comm && is_by_all(other); };
  if (call.verb != Verb::destroy_op && std::count_if(group.begin(), group.end(), is_in_unit) > 1)
    return flat("several calls in a group");
  return plan(call);
}

ncclResult_t perform_planned(std::span<const Call> calls, std::span<const PlannedCall> plans) {
  if (calls.empty()) return ncclSuccess;
  const Nanoseconds began = report_clock();
  const ncclResult_t result = enqueue(nccl_library(), plans);
  if (!went_well(result)) return result;
  const Nanoseconds each = (report_clock() - began) / static_cast<Nanoseconds>(calls.size());
  for (std::size_t i = 0; began != 0 && i < calls.size(); ++i)
    if (plans[i].plan->steps.empty())
      count(issued(calls[i], plans[i].why), each);
    else
      count_planned(calls[i], plans[i].on->name_of(plans[i].route), each);
  return result;
}

void abandon_hierarchies() noexcept {
  guarded([] {
    for_each([](Comm& record) {
      if (record.hierarchy) record.hierarchy->let_rails_go();
    });
    return ncclSuccess;
  });
}

// ---- hooks ----

// The lease for its splits ends first, and the hierarchy before what it is part of.
ncclResult_t destroy_with_hierarchy(ncclComm_t comm, CommPtr record) {
  if (record) record->splits.reset();
  if (HierarchicalCommunicator* hierarchy = hierarchy_of(record))
    for (void* part : hierarchy->release()) original::ncclCommDestroy(static_cast<ncclComm_t>(part));
  record.reset();
  return original::ncclCommDestroy(comm);
}

// In a group, so that all of them know before the first waits for its kernels, which may be behind those of
// another.
ncclResult_t abort_with_hierarchy(ncclComm_t comm, CommPtr record) {
  if (record) record->splits.reset();
  HierarchicalCommunicator* hierarchy = hierarchy_of(record);
  if (!hierarchy) return original::ncclCommAbort(comm);
  hierarchy->let_rails_go();
  original::ncclGroupStart();
  for (void* part : hierarchy->release()) original::ncclCommAbort(static_cast<ncclComm_t>(part));
  ncclResult_t result = original::ncclCommAbort(comm), of_group = original::ncclGroupEnd();
  return went_well(result) ? of_group : result;
}

ncclResult_t finalize_with_hierarchy(ncclComm_t comm, const CommPtr& record) {
  if (HierarchicalCommunicator* hierarchy = hierarchy_of(record))
    for (void* part : hierarchy->parts()) original::ncclCommFinalize(static_cast<ncclComm_t>(part));
  return original::ncclCommFinalize(comm);
}

ncclResult_t revoke_with_hierarchy(ncclComm_t comm, const CommPtr& record, int flags) {
  if (HierarchicalCommunicator* hierarchy = hierarchy_of(record)) {
    hierarchy->let_rails_go();
    for (void* part : hierarchy->parts()) original::ncclCommRevoke(static_cast<ncclComm_t>(part), flags);
  }
  return original::ncclCommRevoke(comm, flags);
}

ncclResult_t async_error_with_hierarchy(ncclComm_t comm, const CommPtr& record, ncclResult_t* error) {
  ncclResult_t result = original::ncclCommGetAsyncError(comm, error);
  if (result != ncclSuccess || !error || *error != ncclSuccess) return result;
  if (HierarchicalCommunicator* hierarchy = hierarchy_of(record)) *error = hierarchy->state();
  return result;
}

}  // namespace ddl::nccl
