#include "interpose/nccl/hierarchies.hpp"

#include <algorithm>
#include <optional>
#include <shared_mutex>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "core/base/log.hpp"
#include "core/base/signals.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/split_registry.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

using Verb = Call::Verb;

struct Table {
  std::atomic<bool> any{false};  // was ever made
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, std::shared_ptr<Companion>> companions;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

std::shared_ptr<Companion> find(ncclComm_t comm) {
  Table& t = table();
  if (!t.any.load(std::memory_order_acquire)) return nullptr;
  std::shared_lock lock(t.mutex);
  auto found = t.companions.find(comm);
  return found == t.companions.end() ? nullptr : found->second;
}

std::shared_ptr<Companion> take(ncclComm_t comm) {
  std::shared_ptr<Companion> found = find(comm);
  if (!found) return nullptr;
  std::unique_lock lock(table().mutex);
  table().companions.erase(comm);
  return found;
}

void insert(ncclComm_t comm, std::shared_ptr<Companion> companion) {
  Table& t = table();
  std::unique_lock lock(t.mutex);
  t.companions[comm] = std::move(companion);
  t.any.store(true, std::memory_order_release);
}

void say(const PendingSetup& setup, const std::string& what) {
  if (environment().verbose > 0) log_info(who_is(setup.creation) + ": " + what);
}

using Made = std::vector<std::shared_ptr<Companion>>;

// What a rank has got of its companion, for all to hear.
enum Got : std::uint8_t { kReady = 1, kRails = 2 };

// Every rank takes part in all of it, whatever went wrong before: the others would wait.
void split_all(const std::vector<PendingSetup>& setups, const Made& made) {
  std::size_t most = 0;
  for (const auto& companion : made) most = std::max(most, companion->parts_wanted());
  for (std::size_t d = 0; d < most; ++d) {
    original::ncclGroupStart();
    for (std::size_t i = 0; i < made.size(); ++i)
      if (d < made[i]->parts_wanted()) made[i]->split(d, setups[i].creation.config);
    ncclResult_t result = original::ncclGroupEnd();
    for (const auto& companion : made) companion->note(result);
  }
}

// A round of the ranks of one communicator: what each had to say; nothing when one cannot be heard.
template <class Said>
std::optional<std::vector<Said>> hear_all(const PendingSetup& setup, ddl_problem& problem) {
  int32_t whatever = 0;
  std::vector<Said> all(static_cast<std::size_t>(setup.creation.ranks));
  if (engine()->test_all_gather(setup.meeting.get(), 1, all.data(), sizeof(Said), &whatever, &problem) !=
      DDL_STREAM_OK)
    return std::nullopt;
  return all;
}

// What a rank was not able to do; "" where all went well.
struct Trouble {
  std::string of_rounds, of_rails;
};

// The first of each group says where its rails meet. In threads, because the ranks wait for each other.
std::vector<Trouble> open_rails(const std::vector<PendingSetup>& setups, const Made& made) {
  std::vector<Trouble> trouble(made.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < made.size(); ++i) {
    ddl_problem unsaid;
    ncclUniqueId id{};
    if (!made[i]->may_have_rails()) continue;
    if (made[i]->last().place == 0) engine()->make_id(&id, &unsaid);
    engine()->start_all_gather(setups[i].meeting.get(), &id, sizeof(id), &unsaid);
  }
  SignalsBlocked blocked;
  for (std::size_t i = 0; i < made.size(); ++i) {
    ddl_problem problem;
    if (!made[i]->may_have_rails()) continue;
    auto ids = hear_all<ncclUniqueId>(setups[i], problem);
    if (!ids) {
      trouble[i].of_rounds = problem.text;
      continue;
    }
    auto open = [&one = setups[i], &companion = *made[i], &why = trouble[i].of_rails,
                 id = (*ids)[static_cast<std::size_t>(made[i]->last().first)]] {
      ddl_problem of_rails;
      if (!companion.open_rails(id, who_is(one.creation), &of_rails)) why = of_rails.text;
    };
    try {
      threads.emplace_back(open);
    } catch (const std::system_error& error) {
      trouble[i].of_rails = error.what();
    }
  }
  for (std::jthread& thread : threads) thread.join();
  return trouble;
}

// Whether all ranks have what it takes. Rails are dropped where one has none.
bool all_are_ready(const PendingSetup& setup, Companion& here, const Trouble& trouble) {
  ddl_problem problem;
  if (!trouble.of_rounds.empty())
    return say(setup, "the communicator is left to NCCL: " + trouble.of_rounds), false;
  auto all = hear_all<std::uint8_t>(setup, problem);
  auto all_have = [&all](Got what) {
    return all && std::all_of(all->begin(), all->end(), [what](std::uint8_t got) { return got & what; });
  };
  if (here.may_have_rails() && !all_have(kRails)) {
    if (!trouble.of_rails.empty()) say(setup, "no rails of ours between the hosts: " + trouble.of_rails);
    here.keep_rails(false);
  }
  if (all_have(kReady)) return true;
  if (!here.is_ready())
    say(setup, std::string("no smaller communicators: ") + original::ncclGetErrorString(here.state()) + ": " +
                   original::ncclGetLastError(*setup.creation.at));
  else if (!all)
    say(setup, std::string("the communicator is left to NCCL: ") + problem.text);
  else if (setup.creation.rank == 0)
    say(setup, "the communicator is left to NCCL: a rank has not got its smaller ones");
  return false;
}

void make_hierarchies(std::vector<PendingSetup> setups) {
  Made made;
  for (const PendingSetup& one : setups)
    made.push_back(std::make_shared<Companion>(*one.creation.at, one.met.hierarchy, one.creation.context));
  split_all(setups, made);
  std::vector<Trouble> trouble = open_rails(setups, made);
  for (std::size_t i = 0; i < made.size(); ++i) {
    ddl_problem problem;
    made[i]->make_streams();
    const auto got = static_cast<std::uint8_t>((made[i]->is_ready() ? kReady : 0) |
                                               (trouble[i].of_rails.empty() ? kRails : 0));
    // Who was not heard, or does not hear, leaves the rounds: the others hear of that.
    if (!trouble[i].of_rounds.empty())
      setups[i].meeting.reset();
    else
      engine()->start_all_gather(setups[i].meeting.get(), &got, sizeof(got), &problem);
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (all_are_ready(setups[i], *made[i], trouble[i]) &&
        made[i]->tune(std::move(setups[i].meeting), setups[i].creation.ranks)) {
      insert(*setups[i].creation.at, made[i]);
      continue;
    }
    for (ncclComm_t part : made[i]->release()) original::ncclCommDestroy(part);
  }
}

// What all ranks of a communicator have in a unit, if one has it.
bool is_by_all(const Call& call) {
  return call.verb != Verb::destroy_op && call.verb != Verb::send && call.verb != Verb::recv;
}

// Why a call that has a communicator's unit for itself goes as it is; null: it has plans.
const char* why_flat(const Call& call, const Companion& companion) {
  const bool is_known = call.type >= ncclInt8 && call.type <= ncclBfloat16;
  if (call.verb != Verb::all_reduce) return "no plan for this collective";
  if (call.op < ncclSum || call.op > ncclMin) return "operation";
  if (!is_known || !companion.is_large_enough(call)) return "small, or of eight-bit floats";
  if (!call.in || !call.out) return "a null pointer";
  return companion.is_capturing(call.stream) ? "captured into a graph" : nullptr;
}

}  // namespace

void set_up_hierarchies(std::vector<PendingSetup> setups) noexcept {
  guarded([&] {
    std::erase_if(setups, [](const PendingSetup& one) { return !*one.creation.at; });
    for (PendingSetup& one : setups) {
      one.creation.host = one.met.host;
      if (one.met.splits_may_have_plans) follow_splits(one.creation);
    }
    std::erase_if(setups, [](const PendingSetup& one) { return one.met.hierarchy.dimensions == 0; });
    if (!setups.empty()) make_hierarchies(std::move(setups));
    return ncclSuccess;
  });
}

bool has_hierarchy(ncclComm_t comm) { return find(comm) != nullptr; }

Route route(const std::vector<Call>& calls) {
  Route to;
  for (const Call& call : calls) {
    auto is_in_unit = [&](const Call& other) { return other.comm == call.comm && is_by_all(other); };
    std::shared_ptr<Companion> companion = find(call.comm);
    if (!companion || call.verb == Verb::destroy_op) {
      to.flat.push_back({call, nullptr});
    } else if (std::count_if(calls.begin(), calls.end(), is_in_unit) > 1) {
      to.flat.push_back({call, "several calls in a group"});
    } else if (const char* why = why_flat(call, *companion)) {
      to.flat.push_back({call, why});
    } else if (Planned how = companion->choose(call); how.clock || !how.plan.steps.empty()) {
      how.companion = std::move(companion);
      to.planned.push_back(std::move(how));
    } else {
      to.flat.push_back({call, how.why});
    }
  }
  return to;
}

void abandon_hierarchies() noexcept {
  guarded([] {
    std::shared_lock lock(table().mutex);
    for (const auto& [comm, companion] : table().companions) companion->let_rails_go();
    return ncclSuccess;
  });
}

// ---- hooks ----

ncclResult_t destroy_with_hierarchy(ncclComm_t comm) {
  if (std::shared_ptr<Companion> companion = take(comm))
    for (ncclComm_t part : companion->release()) original::ncclCommDestroy(part);
  return original::ncclCommDestroy(comm);
}

// In a group, so that all of them know before the first waits for its kernels, which may be behind those of
// another.
ncclResult_t abort_with_hierarchy(ncclComm_t comm) {
  std::shared_ptr<Companion> companion = take(comm);
  if (!companion) return original::ncclCommAbort(comm);
  companion->let_rails_go();
  original::ncclGroupStart();
  for (ncclComm_t part : companion->release()) original::ncclCommAbort(part);
  ncclResult_t result = original::ncclCommAbort(comm), of_group = original::ncclGroupEnd();
  return went_well(result) ? of_group : result;
}

ncclResult_t finalize_with_hierarchy(ncclComm_t comm) {
  if (std::shared_ptr<Companion> companion = find(comm))
    for (ncclComm_t part : companion->parts()) original::ncclCommFinalize(part);
  return original::ncclCommFinalize(comm);
}

ncclResult_t revoke_with_hierarchy(ncclComm_t comm, int flags) {
  if (std::shared_ptr<Companion> companion = find(comm)) {
    companion->let_rails_go();
    for (ncclComm_t part : companion->parts()) original::ncclCommRevoke(part, flags);
  }
  return original::ncclCommRevoke(comm, flags);
}

ncclResult_t async_error_with_hierarchy(ncclComm_t comm, ncclResult_t* error) {
  ncclResult_t result = original::ncclCommGetAsyncError(comm, error);
  if (result != ncclSuccess || !error || *error != ncclSuccess) return result;
  if (std::shared_ptr<Companion> companion = find(comm)) *error = companion->state();
  return result;
}

}  // namespace ddl::nccl
