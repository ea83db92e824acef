#include "interpose/nccl/group.hpp"

#include <utility>
#include <vector>

#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/messages.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"

namespace ddl::nccl {
namespace {

struct Created {
  ncclComm_t* at;
  int rank, size;
};

struct Group {
  bool open = false;                   // the original's group is started
  bool pending = false;                // a communicator is made meanwhile
  ncclResult_t trouble = ncclSuccess;  // the first of the replayed calls that was refused
  Nanoseconds time = 0;                // inside the original
  std::vector<Issued> recorded;        // of the original
  std::vector<Issued> issued;          // to it
  std::vector<Call> on_hierarchies;    // wait for the end
  std::vector<PendingSetup> setups;
  std::vector<Creation> splits;     // of the original's that are followed
  std::vector<Created> created;     // by it
  std::vector<Creation> creations;  // with our ids
  std::vector<Call> ours;           // on our communicators

  // Calls come in groups again and again: their places stay.
  void end() {
    open = pending = false;
    trouble = ncclSuccess;
    time = 0;
    recorded.clear();
    issued.clear();
    on_hierarchies.clear();
    setups.clear();
    splits.clear();
    created.clear();
    creations.clear();
    ours.clear();
  }
};
thread_local Group group;

// What the end of a group does by plans. Its places stay as well.
struct PlannedUnit {
  std::vector<Call> calls;
  std::vector<PlannedCall> plans;  // of each
  std::vector<Issued> flat;        // the others
  void clear() {
    calls.clear();
    plans.clear();
    flat.clear();
  }
};
thread_local PlannedUnit planned_unit;

void count_unit(Nanoseconds time) {
  if (group.issued.empty()) return;
  const Nanoseconds each = time / static_cast<Nanoseconds>(group.issued.size());
  for (const Issued& one : group.issued) count(one, each);
}

void note_created() {
  for (const Created& one : group.created)
    if (*one.at) remember(*one.at, one.rank, one.size);
}

ncclResult_t perform_in_group(const Issued& one) {
  Nanoseconds began = report_clock();
  ncclResult_t result = issue(one.call);
  group.time += report_clock() - began;
  if (went_well(result))
    group.issued.push_back(one);
  else if (group.trouble == ncclSuccess)
    group.trouble = result;
  return result;
}

void open() {
  if (group_depth == 0 || group.open) return;
  group.open = true;
  if (ncclResult_t result = original::ncclGroupStart(); !went_well(result)) group.trouble = result;
  for (const Issued& one : group.recorded) perform_in_group(one);
}

// The outer end. `finish` is the original's own.
template <class Finish, class Done>
ncclResult_t close(Finish finish, Done done) {
  struct Reset {
    ~Reset() {
      group_depth = 0;
      group.end();
    }
  } whatever_happens;
  bool empty = !group.open && group.recorded.empty();
  if (!empty) open();
  Nanoseconds began = report_clock();
  ncclResult_t result = empty ? static_cast<ncclResult_t>(ncclSuccess) : finish();
  if (went_well(result) && group.trouble != ncclSuccess) result = group.trouble;
  if (went_well(result)) done(group.time + report_clock() - began);
  return result;
}

// All are looked at before the first is performed.
void plan_recorded_calls() {
  PlannedUnit& unit = planned_unit;
  unit.clear();
  for (const Call& call : group.on_hierarchies) {
    PlannedCall how = plan_in_group(call, group.on_hierarchies);
    if (how.on) {
      unit.calls.push_back(call);
      unit.plans.push_back(std::move(how));
    } else {
      unit.flat.push_back(issued(call, how.why));
    }
  }
  group.on_hierarchies.clear();
  if (!unit.flat.empty()) open();
  for (const Issued& one : unit.flat) perform_in_group(one);
}

ncclResult_t perform_alone(const Issued& one) {
  Nanoseconds began = report_clock();
  ncclResult_t result = issue(one.call);
  if (went_well(result)) count(one, report_clock() - began);
  return result;
}

// Communicators first: no call of this group can be on one of them.
ncclResult_t finish_ours() noexcept {
  return guarded([]() -> ncclResult_t {
    std::vector<Creation> creations = std::move(group.creations);
    ncclResult_t created = creations.empty() ? ncclResult_t{ncclSuccess} : create_together(creations);
    bring_into_common_order(group.ours);
    ncclResult_t performed = perform_group(group.ours);
    return went_well(created) ? performed : created;
  });
}

}  // namespace

ncclResult_t submit(Call call) noexcept {
  return guarded([&]() -> ncclResult_t {
    Standing standing = standing_of(call.comm);
    if (ncclResult_t wrong = refuse_unmade(name_of(call.verb), standing); wrong != ncclSuccess) return wrong;
    call.comm = standing.real;
    call.record = std::move(standing.record);
    if (call.record && call.record->is_ours()) {
      if (group_depth == 0) return perform_ours(call);
      return group.ours.push_back(std::move(call)), ncclSuccess;
    }
    if (call.record && call.record->hierarchy) {
      if (group_depth > 0) return group.on_hierarchies.push_back(std::move(call)), ncclSuccess;
      PlannedCall how = plan(call);
      return how.on ? perform_planned({&call, 1}, {&how, 1})
                    : perform_alone(issued(std::move(call), how.why));
    }
    Issued one = issued(std::move(call));
    if (group_depth > 0 && group.open) return perform_in_group(one);
    if (group_depth > 0) return group.recorded.push_back(std::move(one)), ncclSuccess;
    return perform_alone(one);
  });
}

void open_group() noexcept {
  guarded([] { return open(), ncclSuccess; });
}

void note_pending_in_group() { group.pending = true; }

void create_at_group_end(Creation creation) { group.creations.push_back(std::move(creation)); }

void set_up_when_created(PendingSetup setup) {
  std::vector<PendingSetup> one;
  one.push_back(std::move(setup));
  if (in_group())
    group.setups.push_back(std::move(one[0]));
  else
    finish_setups(std::move(one));
}

void set_up_when_split(Creation split) {
  if (in_group()) return group.splits.push_back(std::move(split));
  std::vector<Creation> one;
  one.push_back(std::move(split));
  set_up_after_split(std::move(one));
}

void finish_calls_on(ncclComm_t comm) noexcept {
  guarded([comm]() -> ncclResult_t {
    std::vector<Call> calls, others;
    for (const Call& call : group.on_hierarchies) (call.comm == comm ? calls : others).push_back(call);
    group.on_hierarchies = std::move(others);
    if (!calls.empty()) open();
    for (Call& call : calls) perform_in_group(issued(std::move(call), "several calls in a group"));
    return ncclSuccess;
  });
}

void note_created_in_group(ncclComm_t* created, int rank, int size) {
  group.created.push_back({created, rank, size});
}

ncclResult_t group_start() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  if (group_depth == 0 && !next().ncclGroupEnd)
    return complain(nullptr, ncclInvalidUsage, "ncclGroupEnd without an ncclGroupStart before it");
  if (group_depth == 0) return original::ncclGroupEnd();
  if (group_depth > 1) return --group_depth, ncclSuccess;
  const bool pending = group.pending;
  ncclResult_t of_ours = finish_ours();
  ncclResult_t result = guarded([]() -> ncclResult_t {
    struct Clear {
      ~Clear() { planned_unit.clear(); }
    } whatever_happens;
    plan_recorded_calls();
    std::vector<PendingSetup> setups = std::move(group.setups);
    std::vector<Creation> splits = std::move(group.splits);
    ncclResult_t closed = close(original::ncclGroupEnd, [](Nanoseconds time) {
      count_unit(time);
      note_created();
    });
    if (!went_well(closed)) return closed;
    finish_setups(std::move(setups));
    set_up_after_split(std::move(splits));
    ncclResult_t performed = perform_planned(planned_unit.calls, planned_unit.plans);
    return went_well(performed) ? closed : performed;
  });
  if (went_well(of_ours)) of_ours = result;
  return of_ours == ncclSuccess && pending ? ncclResult_t{ncclInProgress} : of_ours;
}

ncclResult_t group_simulate_end(ncclSimInfo_t* info) {
  if (group_depth == 0) return original::ncclGroupSimulateEnd(info);
  if (group_depth > 1) return --group_depth, ncclSuccess;
  return guarded([info] {
    open();  // the estimate of an empty group is the original's too
    for (const Call& call : std::exchange(group.on_hierarchies, {})) perform_in_group(issued(call));
    return close([info] { return original::ncclGroupSimulateEnd(info); },
                 [](Nanoseconds) { note_created(); });
  });
}

}  // namespace ddl::nccl
