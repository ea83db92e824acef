#include "interpose/nccl/creation.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/signals.hpp"
#include "core/bootstrap/rendezvous_id.hpp"
#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/config.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/network.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comm.hpp"

namespace ddl::nccl {
namespace {

// How a setup ended: with a communicator of ours, or with an id of the original.
struct Met {
  ncclResult_t result = ncclSuccess;
  ddl_stream_comm* ours = nullptr;
  ncclUniqueId original_id{};
  bool is_nothing = false;  // a split that leaves this rank out
  MeetingSeat meeting;      // that goes on, for what is `found`
  ddl_setup_outcome found{};
};

Met trouble_of(const Creation& c, ncclResult_t result, const char* why) {
  complain(nullptr, result, who_is(c) + " cannot create a communicator: " + why);
  Met met;
  met.result = result;
  return met;
}

Met split(const Creation& c) {
  Met met;
  ddl_problem problem;
  met.result = with_ours(c.parent, "ncclCommSplit", [&](StreamComm& parent) {
    ncclResult_t result = result_of(engine()->split(parent.engine, c.color, c.key, &met.ours, &problem));
    met.is_nothing = !met.ours;
    return result == ncclSuccess
               ? result
               : complain(c.parent, result,
                          "rank " + std::to_string(parent.rank) + " of " + std::to_string(parent.size) +
                              ": ncclCommSplit: " + problem.text);
  });
  return met;
}

// Waits until all ranks have come.
ddl_stream_result find_others(const Creation& c, ddl_setup** meeting, ddl_setup_outcome* found,
                              ddl_problem* problem) {
  ddl_setup_request seat = {&c.id,
                            c.rank,
                            c.ranks,
                            next().ncclCommInitRank != nullptr,
                            next().ncclCommSplit && is_blocking(c.config),
                            takes_sockets(),
                            c.host,
                            c.context};
  return engine()->set_up(&seat, meeting, found, problem);
}

// May run in a helper thread.
Met meet(const Creation& c) {
  if (c.parent) return split(c);
  const ddl_stream_api* api = engine();
  if (!api)
    return trouble_of(c, ncclSystemError,
                      "its unique id is the engine's, which cannot work in this process (no CUDA device, or "
                      "DDL_ENABLE=0); give all ranks the same environment");
  ddl_problem problem;
  ddl_setup* meeting = nullptr;
  Met met;
  ddl_stream_result result = find_others(c, &meeting, &met.found, &problem);
  if (result == DDL_STREAM_OK && met.found.is_ours) {
    result = api->open(meeting, &met.ours, &problem);
  } else if (result == DDL_STREAM_OK) {
    met.meeting.reset(meeting);
    if (c.rank == 0) met.result = original::ncclGetUniqueId(&met.original_id);
    result = api->share(meeting, &met.original_id, &problem);
  }
  return result == DDL_STREAM_OK ? std::move(met) : trouble_of(c, result_of(result), problem.text);
}

ncclResult_t call_original(const Creation& c, ncclUniqueId id) {
  ncclConfig_t* config = c.config.empty() ? nullptr : const_cast<std::byte*>(c.config.data());
  return created(config ? original::ncclCommInitRankConfig(c.at, c.ranks, id, c.rank, config)
                        : original::ncclCommInitRank(c.at, c.ranks, id, c.rank),
                 c.at, c.rank, c.ranks);
}

ncclResult_t settle_on_original(const Creation& c, Met met) {
  ncclResult_t result = call_original(c, met.original_id);
  if (went_well(result)) set_up_when_created({c, std::move(met.meeting), met.found});
  return result;
}

ncclResult_t settle(const Creation& c, Met met) {
  if (met.result != ncclSuccess) return met.result;
  if (met.is_nothing) return ncclSuccess;
  if (!met.ours) return settle_on_original(c, std::move(met));
  int rank = 0, size = 0;
  engine()->place(met.ours, &rank, &size);
  *c.at = adopt(met.ours, rank, size, engine()->device_of(c.context));
  remember(*c.at, rank, size);
  return ncclSuccess;
}

// NCCL looks at the current device.
class OnContext {
 public:
  explicit OnContext(void* context) : before_(engine()->current_context()) {
    if (context != before_) engine()->use_context(context);
  }
  ~OnContext() { engine()->use_context(before_); }

 private:
  void* before_;
};

// Whose it will be is known when the others have come; who does not want to wait for them has a handle first.
ncclResult_t create_meanwhile(Creation creation) {
  ncclComm_t* at = creation.at;
  *at = make_meanwhile([creation](ncclComm_t* made) mutable {
    creation.at = made;
    Met met = meet(creation);
    if (met.result != ncclSuccess) return met.result;
    OnContext on(creation.context);
    return settle(creation, std::move(met));
  });
  if (!in_group()) return ncclInProgress;
  note_pending_in_group();
  return ncclSuccess;
}

// In threads, because the ranks wait for each other; the last in this one.
template <class Meet>
std::vector<Met> meet_all(const std::vector<Creation>& creations, Meet meet_one) {
  std::vector<Met> met(creations.size());
  if (creations.empty()) return met;
  std::vector<std::jthread> threads;
  {
    SignalsBlocked blocked;
    for (std::size_t i = 0; i + 1 < creations.size(); ++i)
      threads.emplace_back([&, i] { met[i] = meet_one(creations[i]); });
  }
  met.back() = meet_one(creations.back());
  for (std::jthread& thread : threads) thread.join();
  return met;
}

// The original has made the communicator already: what else comes of it, with the others.
Met meet_behind(const Creation& c) {
  Met met;
  ddl_problem problem;
  ddl_setup* meeting = nullptr;
  ddl_stream_result result = find_others(c, &meeting, &met.found, &problem);
  met.meeting.reset(meeting);
  if (result != DDL_STREAM_OK && environment().verbose > 0)
    log_info(who_is(c) + ": a communicator that was split off is left to NCCL: " + problem.text);
  return met;
}

// Whether one process can create them with the original, as ncclCommInitAll does.
bool original_can(const std::vector<int>& devices) {
  std::set<int> different(devices.begin(), devices.end());
  return next().ncclCommInitAll && different.size() == devices.size();
}

}  // namespace

std::string who_is(const Creation& creation) {
  return "rank " + std::to_string(creation.rank) + " of " + std::to_string(creation.ranks);
}

bool is_our_id(const ncclUniqueId& id) {
  return RendezvousId::is_ours(std::as_bytes(std::span(id.internal)));
}

ncclResult_t create(Creation creation) {
  bool has_rank = creation.parent || (creation.rank >= 0 && creation.rank < creation.ranks);
  if (!creation.at || !has_rank)
    return complain(nullptr, ncclInvalidArgument,
                    "a communicator is wanted for no such rank, or without a place for it");
  if (!creation.context && engine()) creation.context = engine()->current_context();
  *creation.at = nullptr;
  if (!creation.parent && !is_blocking(creation.config)) return create_meanwhile(std::move(creation));
  if (in_group()) return create_at_group_end(std::move(creation)), ncclSuccess;
  return settle(creation, meet(creation));
}

ncclResult_t create_with(const char* function, Creation creation, const ncclConfig_t* config) {
  GivenConfig given = copy_of(config);
  if (!given.trouble.empty())
    return complain(creation.parent, ncclInvalidArgument, std::string(function) + ": " + given.trouble);
  creation.config = std::move(given.bytes);
  creation.texts = std::move(given.texts);
  return create(std::move(creation));
}

ncclResult_t create_together(const std::vector<Creation>& creations) {
  std::vector<Met> met = meet_all(creations, meet);
  ncclResult_t first = ncclSuccess;
  for (std::size_t i = 0; i < creations.size(); ++i) {
    if (!met[i].ours && !met[i].is_nothing && met[i].result == ncclSuccess) open_group();
    OnContext on(creations[i].context);
    ncclResult_t result = settle(creations[i], std::move(met[i]));
    if (went_well(first)) first = result;
  }
  return first;
}

void set_up_after_split(std::vector<Creation> splits) noexcept {
  guarded([&] {
    std::erase_if(splits, [](Creation& one) {
      return !*one.at || original::ncclCommCount(*one.at, &one.ranks) != ncclSuccess ||
             original::ncclCommUserRank(*one.at, &one.rank) != ncclSuccess || one.ranks < 2;
    });
    std::vector<Met> met = meet_all(splits, meet_behind);
    std::vector<PendingSetup> setups;
    for (std::size_t i = 0; i < splits.size(); ++i)
      if (met[i].meeting && !met[i].found.is_ours)
        setups.push_back({std::move(splits[i]), std::move(met[i].meeting), met[i].found});
    set_up_hierarchies(std::move(setups));
    return ncclSuccess;
  });
}

ncclResult_t split_original(ncclComm_t parent, int color, int key, ncclComm_t* comm, ncclConfig_t* config) {
  std::optional<Creation> split = next_split(parent, color, comm, config);
  ncclResult_t result = created(original::ncclCommSplit(parent, color, key, comm, config), comm, -1, 0);
  if (split && went_well(result)) set_up_when_split(*std::move(split));
  return result;
}

// ---- hooks ----

ncclResult_t get_unique_id(ncclUniqueId* id) {
  if (!engine()) return original::ncclGetUniqueId(id);
  ddl_problem problem;
  if (!id) return ncclInvalidArgument;
  ncclResult_t result = result_of(engine()->make_id(id, &problem));
  return result == ncclSuccess ? result : complain(nullptr, result, problem.text);
}

ncclResult_t comm_init_rank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return guarded([&]() -> ncclResult_t {
    if (is_our_id(id)) return create({comm, ranks, rank, id});
    open_group();
    return created(original::ncclCommInitRank(comm, ranks, id, rank), comm, rank, ranks);
  });
}

ncclResult_t comm_init_rank_config(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                   ncclConfig_t* config) {
  return guarded([&]() -> ncclResult_t {
    if (is_our_id(id)) return create_with("ncclCommInitRankConfig", {comm, ranks, rank, id}, config);
    open_group();
    return created(original::ncclCommInitRankConfig(comm, ranks, id, rank, config), comm, rank, ranks);
  });
}

// With several ids of ours the first is enough: one rendezvous carries them all.
ncclResult_t comm_init_rank_scalable(ncclComm_t* comm, int ranks, int rank, int ids_n, ncclUniqueId* ids,
                                     ncclConfig_t* config) {
  return guarded([&]() -> ncclResult_t {
    if (ids && ids_n > 0 && is_our_id(ids[0]))
      return create_with("ncclCommInitRankScalable", {comm, ranks, rank, ids[0]}, config);
    open_group();
    ncclResult_t result = original::ncclCommInitRankScalable(comm, ranks, rank, ids_n, ids, config);
    return created(result, comm, rank, ranks);
  });
}

ncclResult_t comm_init_all(ncclComm_t* comms, int devices_n, const int* devices) {
  return guarded([&]() -> ncclResult_t {
    std::vector<int> wanted;
    for (int i = 0; i < devices_n; ++i) wanted.push_back(devices ? devices[i] : i);
    if (original_can(wanted) || !engine() || !comms || devices_n < 1) {
      open_group();
      ncclResult_t result = original::ncclCommInitAll(comms, devices_n, devices);
      for (int i = 0; went_well(result) && i < devices_n; ++i) created(result, comms + i, i, devices_n);
      return result;
    }
    ncclUniqueId id;
    if (ncclResult_t result = get_unique_id(&id); result != ncclSuccess) return result;
    std::vector<Creation> creations;
    for (int i = 0; i < devices_n; ++i) {
      creations.push_back({comms + i,
                           devices_n,
                           i,
                           id,
                           {},
                           {},
                           engine()->context_of_device(wanted[static_cast<std::size_t>(i)])});
      if (!creations.back().context)
        return complain(
            nullptr, ncclInvalidArgument,
            "ncclCommInitAll names device " + std::to_string(wanted.back()) + ", which there is not");
    }
    return create_together(creations);
  });
}

}  // namespace ddl::nccl
