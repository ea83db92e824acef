#include "interpose/nccl/group.hpp"

#include <vector>

#include "core/base/clock.hpp"
#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/messages.hpp"
#include "interpose/nccl/report.hpp"

namespace ddl::nccl {
namespace {

struct Created {
  ncclComm_t* at;
  int rank, size;
};

struct Group {
  int depth = 0;
  bool open = false;                   // the original's group is started
  ncclResult_t trouble = ncclSuccess;  // the first of the replayed calls that was refused
  Nanoseconds time = 0;                // inside the original
  std::vector<Call> recorded, issued;  // of the original
  std::vector<Created> created;        // by it
  std::vector<Creation> creations;     // with our ids
  std::vector<Call> native;            // on our communicators
};
thread_local Group group;

void count_unit(Nanoseconds time) {
  if (group.issued.empty()) return;
  for (const Call& call : group.issued) count(call, time / static_cast<Nanoseconds>(group.issued.size()));
}

void note_created() {
  for (const Created& one : group.created)
    if (*one.at) remember(*one.at, one.rank, one.size);
}

ncclResult_t perform_in_group(const Call& call) {
  Nanoseconds began = now();
  ncclResult_t result = issue(call);
  group.time += now() - began;
  if (went_well(result))
    group.issued.push_back(call);
  else if (group.trouble == ncclSuccess)
    group.trouble = result;
  return result;
}

void open() {
  if (group.depth == 0 || group.open) return;
  group.open = true;
  if (ncclResult_t result = original::ncclGroupStart(); !went_well(result)) group.trouble = result;
  for (const Call& call : group.recorded) perform_in_group(call);
}

// The outer end. `finish` is the original's own.
template <class Finish, class Done>
ncclResult_t close(Finish finish, Done done) {
  struct Reset {
    ~Reset() { group = {}; }
  } whatever_happens;
  bool empty = !group.open && group.recorded.empty();
  if (!empty) open();
  Nanoseconds began = now();
  ncclResult_t result = empty ? static_cast<ncclResult_t>(ncclSuccess) : finish();
  if (went_well(result) && group.trouble != ncclSuccess) result = group.trouble;
  if (went_well(result)) done(group.time + now() - began);
  return result;
}

// Communicators first: no call of this group can be on one of them.
ncclResult_t finish_ours() noexcept {
  return guarded([]() -> ncclResult_t {
    std::vector<Creation> creations = std::move(group.creations);
    std::vector<Call> calls = in_common_order(std::move(group.native));
    ncclResult_t first = creations.empty() ? ncclResult_t{ncclSuccess} : create_together(creations);
    for (const Call& call : calls) {
      ncclResult_t result = perform_native(call);
      if (went_well(first)) first = result;
    }
    return first;
  });
}

}  // namespace

ncclResult_t submit(const Call& call) noexcept {
  return guarded([&]() -> ncclResult_t {
    if (is_native(call.comm)) {
      if (group.depth == 0) return perform_native(call);
      return group.native.push_back(call), ncclSuccess;
    }
    if (group.depth > 0 && group.open) return perform_in_group(call);
    if (group.depth > 0) return group.recorded.push_back(call), ncclSuccess;
    Nanoseconds began = now();
    ncclResult_t result = issue(call);
    if (went_well(result)) count(call, now() - began);
    return result;
  });
}

void open_group() noexcept {
  guarded([] { return open(), ncclSuccess; });
}

bool in_group() { return group.depth > 0; }

void create_at_group_end(Creation creation) { group.creations.push_back(std::move(creation)); }

void note_created_in_group(ncclComm_t* created, int rank, int size) {
  group.created.push_back({created, rank, size});
}

ncclResult_t group_start() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t group_end() {
  if (group.depth == 0 && !next().ncclGroupEnd)
    return complain(nullptr, ncclInvalidUsage, "ncclGroupEnd without an ncclGroupStart before it");
  if (group.depth == 0) return original::ncclGroupEnd();
  if (group.depth > 1) return --group.depth, ncclSuccess;
  ncclResult_t of_ours = finish_ours();
  ncclResult_t result = guarded([] {
    return close(original::ncclGroupEnd, [](Nanoseconds time) {
      count_unit(time);
      note_created();
    });
  });
  return went_well(of_ours) ? result : of_ours;
}

ncclResult_t group_simulate_end(ncclSimInfo_t* info) {
  if (group.depth == 0) return original::ncclGroupSimulateEnd(info);
  if (group.depth > 1) return --group.depth, ncclSuccess;
  return guarded([info] {
    open();  // the estimate of an empty group is the original's too
    return close([info] { return original::ncclGroupSimulateEnd(info); },
                 [](Nanoseconds) { note_created(); });
  });
}

}  // namespace ddl::nccl
