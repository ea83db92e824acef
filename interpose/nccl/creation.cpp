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
#include "interpose/nccl/setup_exchange.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comm.hpp"

namespace ddl::nccl {
namespace {

// Whose communicator it will be, as all ranks have decided: ours, or the original's by its id.
struct Decision {
  ncclResult_t result = ncclSuccess;
  ddl_stream_comm* ours = nullptr;
  ncclUniqueId original_id{};
  bool is_nothing = false;           // a split that leaves this rank out
  std::unique_ptr<Exchange> rounds;  // of a setup that goes on, for what has come out
  ddl_setup_outcome outcome{};
};

Decision trouble_of(const Creation& c, ncclResult_t result, const char* why) {
  complain(nullptr, result, who_is(c) + " cannot create a communicator: " + why);
  Decision decision;
  decision.result = result;
  return decision;
}

Decision split(const Creation& c) {
  Decision decision;
  ddl_problem problem;
  CommPtr parent_record = find_ours(c.parent);
  decision.result = with_ours(*parent_record, "ncclCommSplit", [&](StreamComm& parent) {
    ncclResult_t result =
        result_of(stream_api()->split(parent.engine, c.color, c.key, &decision.ours, &problem));
    decision.is_nothing = !decision.ours;
    return result == ncclSuccess
               ? result
               : complain(c.parent, result,
                          "rank " + std::to_string(parent.rank) + " of " + std::to_string(parent.size) +
                              ": ncclCommSplit: " + problem.text);
  });
  return decision;
}

// Waits until all ranks have come.
ddl_stream_result set_up_with_others(const Creation& c, ddl_setup** setup, ddl_setup_outcome* outcome,
                                     ddl_problem* problem) {
  ddl_setup_request request = {.id = &c.id,
                               .rank = c.rank,
                               .size = c.ranks,
                               .has_original = next().ncclCommInitRank != nullptr,
                               .can_split = next().ncclCommSplit && is_blocking(c.config),
                               .by_sockets = takes_sockets(),
                               .host = c.host,
                               .context = c.context};
  return stream_api()->set_up(&request, setup, outcome, problem);
}

// May run in a helper thread.
Decision decide(const Creation& c) {
  if (c.parent) return split(c);
  const ddl_stream_api* api = stream_api();
  if (!api)
    return trouble_of(c, ncclSystemError,
                      "its unique id is the engine's, which cannot work in this process (no CUDA device, or "
                      "DDL_ENABLE=0); give all ranks the same environment");
  ddl_problem problem;
  ddl_setup* setup = nullptr;
  Decision decision;
  ddl_stream_result result = set_up_with_others(c, &setup, &decision.outcome, &problem);
  if (result == DDL_STREAM_OK && decision.outcome.is_ours) {
    result = api->open(setup, &decision.ours, &problem);
  } else if (result == DDL_STREAM_OK) {
    decision.rounds = std::make_unique<SetupExchange>(setup, c.rank, c.ranks);
    const ncclResult_t has_id =
        c.rank == 0 ? original::ncclGetUniqueId(&decision.original_id) : ncclResult_t{ncclSuccess};
    result = api->share(setup, has_id == ncclSuccess ? &decision.original_id : nullptr, &problem);
    if (has_id != ncclSuccess) return trouble_of(c, has_id, "NCCL gives no unique id");
  }
  return result == DDL_STREAM_OK ? std::move(decision) : trouble_of(c, result_of(result), problem.text);
}

ncclResult_t call_original(const Creation& c, ncclUniqueId id) {
  ncclConfig_t* config = c.config.empty() ? nullptr : const_cast<std::byte*>(c.config.data());
  return created(config ? original::ncclCommInitRankConfig(c.at, c.ranks, id, c.rank, config)
                        : original::ncclCommInitRank(c.at, c.ranks, id, c.rank),
                 c.at, c.rank, c.ranks);
}

ncclResult_t settle_on_original(const Creation& c, Decision decision) {
  ncclResult_t result = call_original(c, decision.original_id);
  if (went_well(result)) set_up_when_created({c, std::move(decision.rounds), decision.outcome});
  return result;
}

ncclResult_t settle(const Creation& c, Decision decision) {
  if (decision.result != ncclSuccess) return decision.result;
  if (decision.is_nothing) return ncclSuccess;
  if (!decision.ours) return settle_on_original(c, std::move(decision));
  int rank = 0, size = 0;
  stream_api()->place(decision.ours, &rank, &size);
  *c.at = adopt(decision.ours, rank, size, stream_api()->device_of(c.context));
  remember(*c.at, rank, size);
  return ncclSuccess;
}

// NCCL looks at the current device.
class OnContext {
 public:
  explicit OnContext(void* context) : before_(stream_api()->current_context()) {
    if (context != before_) stream_api()->use_context(context);
  }
  ~OnContext() { stream_api()->use_context(before_); }

 private:
  void* before_;
};

// Whose it will be is known when the others have come; who does not want to wait for them has a handle first.
ncclResult_t create_meanwhile(Creation creation) {
  ncclComm_t* at = creation.at;
  *at = make_meanwhile([creation](ncclComm_t* made) mutable {
    creation.at = made;
    Decision decision = decide(creation);
    if (decision.result != ncclSuccess) return decision.result;
    OnContext on(creation.context);
    return settle(creation, std::move(decision));
  });
  if (!in_group()) return ncclInProgress;
  note_pending_in_group();
  return ncclSuccess;
}

// In threads, because the ranks wait for each other; the last in this one.
template <class Decide>
std::vector<Decision> decide_all(const std::vector<Creation>& creations, Decide decide_one) {
  std::vector<Decision> decisions(creations.size());
  if (creations.empty()) return decisions;
  std::vector<std::jthread> threads;
  {
    SignalsBlocked blocked;
    for (std::size_t i = 0; i + 1 < creations.size(); ++i)
      threads.emplace_back([&, i] { decisions[i] = decide_one(creations[i]); });
  }
  decisions.back() = decide_one(creations.back());
  for (std::jthread& thread : threads) thread.join();
  return decisions;
}

// The original has made the communicator already: what else comes of it, with the others.
Decision set_up_split(const Creation& c) {
  Decision decision;
  ddl_problem problem;
  ddl_setup* setup = nullptr;
  ddl_stream_result result = set_up_with_others(c, &setup, &decision.outcome, &problem);
  if (setup) decision.rounds = std::make_unique<SetupExchange>(setup, c.rank, c.ranks);
  if (result != DDL_STREAM_OK && environment().verbose > 0)
    log_info(who_is(c) + ": a communicator that was split off is left to NCCL: " + problem.text);
  return decision;
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
  if (!creation.context && stream_api()) creation.context = stream_api()->current_context();
  *creation.at = nullptr;
  if (!creation.parent && !is_blocking(creation.config)) return create_meanwhile(std::move(creation));
  if (in_group()) return create_at_group_end(std::move(creation)), ncclSuccess;
  return settle(creation, decide(creation));
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
  std::vector<Decision> decisions = decide_all(creations, decide);
  ncclResult_t first = ncclSuccess;
  for (std::size_t i = 0; i < creations.size(); ++i) {
    ncclResult_t result = decisions[i].result;
    if (result == ncclSuccess) {
      if (!decisions[i].ours && !decisions[i].is_nothing) open_group();
      OnContext on(creations[i].context);
      result = settle(creations[i], std::move(decisions[i]));
    }
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
    std::vector<Decision> decisions = decide_all(splits, set_up_split);
    std::vector<PendingSetup> setups;
    for (std::size_t i = 0; i < splits.size(); ++i)
      if (decisions[i].rounds && !decisions[i].outcome.is_ours)
        setups.push_back({std::move(splits[i]), std::move(decisions[i].rounds), decisions[i].outcome});
    finish_setups(std::move(setups));
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
  if (!id_api()) return original::ncclGetUniqueId(id);
  ddl_problem problem;
  if (!id) return ncclInvalidArgument;
  ncclResult_t result = result_of(id_api()->make_id(id, &problem));
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
    if (original_can(wanted) || !stream_api() || !comms || devices_n < 1) {
      open_group();
      ncclResult_t result = original::ncclCommInitAll(comms, devices_n, devices);
      for (int i = 0; went_well(result) && i < devices_n; ++i) created(result, comms + i, i, devices_n);
      return result;
    }
    ncclUniqueId id;
    if (ncclResult_t result = get_unique_id(&id); result != ncclSuccess) return result;
    std::vector<Creation> creations;
    for (int i = 0; i < devices_n; ++i) {
      creations.push_back({.at = comms + i,
                           .ranks = devices_n,
                           .rank = i,
                           .id = id,
                           .context = stream_api()->context_of_device(wanted[static_cast<std::size_t>(i)])});
      if (!creations.back().context)
        return complain(
            nullptr, ncclInvalidArgument,
            "ncclCommInitAll names device " + std::to_string(wanted.back()) + ", which there is not");
    }
    return create_together(creations);
  });
}

}  // namespace ddl::nccl
