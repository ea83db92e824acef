// The public C API: checks what the program gives, translates, and turns every exception into an error.
#include "core/ddl.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/device/device_memory.hpp"
#include "core/engine_types.hpp"
#include "core/session/identity.hpp"
#include "core/session/session_communicator.hpp"
#include "core/session/standalone_job.hpp"

namespace {

using ddl::Rank;

struct World;

}  // namespace

// Stays when its job is finalized, so that a late call on it can be refused.
struct ddl_group {
  World* world = nullptr;
  std::vector<Rank> members;  // ranks of the world
  Rank me = 0;
  ddl::CommId id = 0;
  std::optional<ddl::SessionCommunicator> communicator;  // none: the job is finalized
  std::map<std::vector<Rank>, std::uint64_t> created;    // groups of these members
};

// Likewise. One that is done serves the next call.
struct ddl_request {
  ddl_group* group = nullptr;
  ddl::SessionCall call;
  bool is_under_way = false;
  ddl::Outcome outcome;
};

namespace {

// A job and all that was made of it.
struct World {
  std::unique_ptr<ddl::StandaloneJob> job;  // null: finalized
  std::mutex mutex;                         // of what follows
  std::deque<std::unique_ptr<ddl_group>> groups;
  std::deque<std::unique_ptr<ddl_request>> requests;
  std::vector<ddl_request*> idle;
};

// Jobs stay, as their groups do.
void keep(std::unique_ptr<World> world) {
  static std::mutex mutex;
  static auto& all = *new std::deque<std::unique_ptr<World>>;
  std::lock_guard lock(mutex);
  all.push_back(std::move(world));
}

thread_local char last_error[1024];

ddl_status refuse(ddl_status status, const std::string& text) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s", text.c_str());
  return status;
}

// Thrown for what the program has given.
struct BadArgument : ddl::Error {
  using Error::Error;
};
struct Finalized : ddl::Error {
  Finalized() : Error("the job is finalized", "no call can be made any more", "call ddl_init again") {}
};
struct JobFailed : ddl::Error {
  using Error::Error;
};

template <class Body>
ddl_status guarded(ddl_status otherwise, Body body) noexcept {
  try {
    try {
      body();
      return DDL_SUCCESS;
    } catch (const BadArgument& error) {
      return refuse(DDL_ERROR_ARGUMENT, error.what());
    } catch (const Finalized& error) {
      return refuse(DDL_ERROR_STATE, error.what());
    } catch (const JobFailed& error) {
      return refuse(DDL_ERROR_JOB, error.what());
    } catch (const std::bad_alloc&) {
      return refuse(DDL_ERROR_SYSTEM, "there is no memory left");
    } catch (const std::exception& error) {
      return refuse(otherwise, error.what());
    }
  } catch (...) {
    return DDL_ERROR_SYSTEM;  // no memory for the words
  }
}

void check(bool is_right, const char* problem, const char* why) {
  if (!is_right) throw BadArgument(problem, why);
}

// The fields that the program knows, over the defaults of the others. What a newer program sets that this
// library does not know is refused.
template <class Options>
Options known_fields(const Options* given, Options fallback, const char* name) {
  if (!given) return fallback;
  if (given->size < sizeof(given->size))
    throw BadArgument(fmt::format("{}.size is {}", name, given->size), "it says which fields there are",
                      fmt::format("begin with its initializer, or set it to sizeof({})", name));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof(Options); at < given->size; ++at)
    if (bytes[at] != 0)
      throw BadArgument(fmt::format("{} has a field that this library does not know", name),
                        "the program was built for a newer one", "install that, or leave the field zero");
  std::memcpy(static_cast<void*>(&fallback), given, std::min(given->size, sizeof(Options)));
  return fallback;
}

ddl_group& checked(ddl_group* group) {
  check(group, "the group is NULL", "ddl_init and ddl_group_create make one");
  if (!group->world->job || !group->communicator) throw Finalized();
  return *group;
}

ddl::Call checked(const ddl_call& call, const ddl_group& group) {
  using ddl::Kind;
  if (static_cast<unsigned>(call.kind) >= ddl::kKinds)
    throw BadArgument(fmt::format("there is no kind of collective {}", static_cast<int>(call.kind)));
  const Kind kind = ddl::from_c(call.kind);
  if (static_cast<unsigned>(call.type) >= ddl::kDTypes)
    throw BadArgument(fmt::format("there is no type {}", static_cast<int>(call.type)), "see ddl_type");
  const ddl::DType type = ddl::from_c(call.type);
  if (ddl::computes(kind)) {
    if (static_cast<unsigned>(call.op) >= ddl::kOps)
      throw BadArgument(fmt::format("there is no operation {}", static_cast<int>(call.op)), "see ddl_op");
    if (!ddl::is_reducible(type, ddl::from_c(call.op)))
      throw BadArgument(
          fmt::format("there is no {} of {}", ddl::name_of(ddl::from_c(call.op)), ddl::name_of(type)),
          "logical and bitwise operations take integers");
  }
  const auto ranks = static_cast<Rank>(group.members.size());
  const bool two = ddl::is_between_two(kind);
  const Rank root = ddl::has_root(kind) || two ? call.root : 0;
  if (root < 0 || root >= ranks)
    throw BadArgument(fmt::format("rank {} is not in the group", root),
                      fmt::format("it has {} ranks", ranks));
  if (two && root == group.me) throw BadArgument("a rank cannot send to itself, nor receive from itself");
  const ddl::Task task{kind, root};
  const Rank in = ddl::blocks_in(task, group.me, ranks), out = ddl::blocks_out(task, group.me, ranks);
  constexpr std::uint64_t kMost = std::uint64_t{1}
                                  << 46;  // elements; their bytes over all ranks can be counted
  if (call.count > kMost / static_cast<std::uint64_t>(ranks))
    throw BadArgument(fmt::format("a count of {} is more than any memory holds", call.count));
  const bool is_needed = call.count > 0;
  check(!is_needed || in == 0 || call.in, "the input buffer is NULL", "this rank brings elements");
  check(!is_needed || out == 0 || call.out, "the output buffer is NULL", "this rank gets elements");
  ddl::Call made{call.in,    call.out, call.count, type, ddl::from_c(call.op), ddl::name_of(kind).data(),
                 ddl::now(), kind,     root};
  if (!ddl::computes(kind)) made.op = ddl::Op::sum;
  if (kind != Kind::all_reduce && is_needed && ddl::is_device_memory(call.in, call.out, made.began))
    throw BadArgument(fmt::format("the {} has a buffer in device memory", ddl::name_of(kind)),
                      "only those of an all-reduce may be", "copy it to the host");
  return made;
}

void check_outcome(ddl_group& group, const ddl::Outcome& outcome) {
  if (outcome.what == ddl::Outcome::What::failed) throw JobFailed(group.world->job->session().failure());
}

// What an exception in a call of the job is: its ranks go on with different calls.
template <class Body>
ddl_status call_on(ddl_group* given, Body body) noexcept {
  return guarded(DDL_ERROR_JOB, [&] {
    ddl_group& group = checked(given);
    try {
      body(group);
    } catch (const BadArgument&) {
      throw;
    } catch (const JobFailed&) {
      throw;
    } catch (const std::exception& error) {
      group.world->job->session().fail(error.what());
      throw;
    }
  });
}

ddl_status run(const ddl_call& call, ddl_group* given) noexcept {
  return call_on(given, [&](ddl_group& group) {
    const ddl::Call made = checked(call, group);
    if (made.count == 0) return;
    if (!ddl::is_between_two(made.kind)) return check_outcome(group, group.communicator->run(made));
    ddl::SessionCall under_way;
    ddl::Outcome outcome = group.communicator->start(made, under_way);
    if (outcome.what == ddl::Outcome::What::under_way) outcome = group.communicator->wait(under_way);
    check_outcome(group, outcome);
  });
}

ddl_group& add_group(World& world, std::vector<Rank> members, Rank me, ddl::CommId id) {
  auto group = std::make_unique<ddl_group>();
  group->world = &world;
  group->members = std::move(members);
  group->me = me;
  group->id = id;
  ddl::Session& session = world.job->session();
  group->communicator.emplace(session, id, session.plans_of(group->members, me));
  std::lock_guard lock(world.mutex);
  world.groups.push_back(std::move(group));
  return *world.groups.back();
}

// Its members derive the same identity, without a word: from the group that they come from, who they are, and
// how many groups of them were made before.
ddl_group& part_of(ddl_group& parent, std::vector<Rank> members, Rank me) {
  ddl::CommId id = ddl::identity_of(parent.id, ++parent.created[members], members.size());
  for (Rank member : members) id = ddl::identity_of(id, static_cast<std::uint64_t>(member), 0);
  return add_group(*parent.world, std::move(members), me, id);
}

ddl_request& take_request(ddl_group& group) {
  World& world = *group.world;
  std::lock_guard lock(world.mutex);
  if (world.idle.empty()) {
    world.requests.push_back(std::make_unique<ddl_request>());
    world.idle.reserve(world.requests.size());
    world.idle.push_back(world.requests.back().get());
  }
  ddl_request& request = *world.idle.back();
  world.idle.pop_back();
  request.group = &group;
  request.is_under_way = true;
  return request;
}

// A request whose operation may still be known to an engine that has failed is not used again.
void give_back(ddl_request& request) {
  World& world = *request.group->world;
  std::lock_guard lock(world.mutex);
  request.is_under_way = false;
  if (request.call.done()) world.idle.push_back(&request);
}

void end(ddl_request** request, const ddl::Outcome& outcome) {
  ddl_group& group = *(*request)->group;
  give_back(**request);
  *request = nullptr;
  check_outcome(group, outcome);
}

// With what is wrong about the handle itself.
template <class Body>
ddl_status finish(ddl_request** request, Body body) noexcept {
  if (!request)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the pointer to the request is NULL", "it becomes NULL"); });
  if (!*request) return DDL_SUCCESS;
  ddl_group* group = (*request)->group;
  ddl_status status = call_on(group, [&](ddl_group&) { body(); });
  if (status == DDL_ERROR_STATE) *request = nullptr;
  return status;
}

ddl::Env environment(const ddl_init_options& options) {
  ddl::Env env = ddl::load_env();
  for (const std::string& warning : env.warnings) ddl::log_warning(warning);
  if (options.timeout_s > 0) env.timeout_s = options.timeout_s;
  return env;
}

}  // namespace

extern "C" {

ddl_status ddl_init(const ddl_init_options* options, ddl_group** world) {
  return guarded(DDL_ERROR_LAUNCH, [&] {
    check(world, "the pointer to the group is NULL", "it becomes the group of all ranks");
    *world = nullptr;
    const ddl_init_options known = known_fields(options, DDL_INIT_OPTIONS, "ddl_init_options");
    check(known.rank >= -1 && known.ranks >= -1 && known.ranks != 0,
          "a rank or a number of ranks is negative", "-1 leaves it to the launcher");
    check(known.timeout_s >= 0 && known.timeout_s < 1e9, "timeout_s is not a number of seconds",
          "0: DDL_TIMEOUT");
    ddl::JobAsked asked{known.rank, known.ranks, known.address ? known.address : "", known.port};
    auto made = std::make_unique<World>();
    made->job = std::make_unique<ddl::StandaloneJob>(asked, environment(known));
    std::vector<Rank> all(static_cast<std::size_t>(made->job->session().size()));
    std::iota(all.begin(), all.end(), 0);
    ddl_group& group =
        add_group(*made, std::move(all), made->job->session().rank(), ddl::identity_of(0, 1, 0));
    made->job->session().say_conclusion();
    *world = &group;
    keep(std::move(made));
  });
}

ddl_status ddl_finalize(ddl_group* given) {
  return guarded(DDL_ERROR_JOB, [&] {
    ddl_group& group = checked(given);
    World& world = *group.world;
    check(&group == world.groups.front().get(), "the group is not that of all ranks",
          "ddl_init has given that one");
    ddl::Session& session = world.job->session();
    std::uint8_t nothing = 0;
    const ddl::Call barrier{&nothing, &nothing, 1, ddl::DType::uint8, ddl::Op::max, "barrier", ddl::now()};
    std::string failure;
    try {
      if (group.communicator->run(barrier).what != ddl::Outcome::What::failed) world.job->leave();
      failure = session.failure();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    bool any = std::any_of(world.requests.begin(), world.requests.end(),
                           [](const auto& request) { return request->is_under_way; });
    if (any)
      session.fail("the job is finalized while calls are under way");  // the engine lets go of their buffers
    for (auto& made : world.groups) made->communicator.reset();
    world.job.reset();
    if (!failure.empty()) throw JobFailed(failure);
  });
}

int32_t ddl_rank(const ddl_group* group) { return group ? group->me : -1; }
int32_t ddl_size(const ddl_group* group) { return group ? static_cast<int32_t>(group->members.size()) : -1; }

ddl_status ddl_group_create(ddl_group* given, const int32_t* members, int32_t n, ddl_group** group) {
  return guarded(DDL_ERROR_JOB, [&] {
    check(group, "the pointer to the new group is NULL", "it becomes the group");
    *group = nullptr;
    ddl_group& parent = checked(given);
    check(members && n > 0, "a group needs members", "their ranks in the parent");
    std::vector<Rank> ranks;
    Rank me = -1;
    for (int32_t i = 0; i < n; ++i) {
      const int32_t member = members[i];
      if (member < 0 || member >= ddl_size(given))
        throw BadArgument(fmt::format("rank {} is not in the parent", member),
                          fmt::format("it has {} ranks", ddl_size(given)));
      if (member == parent.me) me = i;
      ranks.push_back(parent.members[static_cast<std::size_t>(member)]);
    }
    std::vector<Rank> sorted = ranks;
    std::sort(sorted.begin(), sorted.end());
    check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a rank is named twice",
          "each member has one place");
    check(me >= 0, "this rank is not a member", "only members call");
    *group = &part_of(parent, std::move(ranks), me);
  });
}

ddl_status ddl_group_split(ddl_group* given, int32_t color, int32_t key, ddl_group** group) {
  if (group) *group = nullptr;
  struct Part {
    int32_t color, key;
  };
  std::vector<Part> parts;
  ddl_status status = guarded(DDL_ERROR_JOB, [&] {
    check(group, "the pointer to the new group is NULL", "it becomes the group");
    parts.resize(checked(given).members.size());
    parts[static_cast<std::size_t>(given->me)] = {color, key};
  });
  if (status != DDL_SUCCESS) return status;
  status = ddl_all_gather(&parts[static_cast<std::size_t>(given->me)], parts.data(), sizeof(Part), DDL_UINT8,
                          given);
  if (status != DDL_SUCCESS || color < 0) return status;
  return guarded(DDL_ERROR_JOB, [&] {
    std::vector<std::size_t> mates;
    for (std::size_t rank = 0; rank < parts.size(); ++rank)
      if (parts[rank].color == color) mates.push_back(rank);
    std::stable_sort(mates.begin(), mates.end(),
                     [&](std::size_t a, std::size_t b) { return parts[a].key < parts[b].key; });
    std::vector<Rank> ranks;
    Rank me = 0;
    for (std::size_t mate : mates) {
      if (static_cast<Rank>(mate) == given->me) me = static_cast<Rank>(ranks.size());
      ranks.push_back(given->members[mate]);
    }
    *group = &part_of(*given, std::move(ranks), me);
  });
}

ddl_status ddl_group_free(ddl_group* group) {
  if (!group) return DDL_SUCCESS;
  return guarded(DDL_ERROR_JOB, [&] {
    World& world = *checked(group).world;
    std::lock_guard lock(world.mutex);
    check(group != world.groups.front().get(), "the group of all ranks cannot be freed",
          "ddl_finalize ends it");
    std::erase_if(world.groups, [&](const auto& one) { return one.get() == group; });
  });
}

ddl_status ddl_run(const ddl_call* call, ddl_group* group) {
  ddl_call known;
  ddl_status status = guarded(DDL_ERROR_ARGUMENT, [&] {
    check(call, "the call is NULL", "it says what to do");
    known = known_fields(call, DDL_CALL, "ddl_call");
  });
  return status == DDL_SUCCESS ? run(known, group) : status;
}

ddl_status ddl_all_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                          ddl_group* group) {
  return run({sizeof(ddl_call), DDL_ALL_REDUCE, in, out, count, type, op, 0}, group);
}
ddl_status ddl_broadcast(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                         ddl_group* group) {
  return run({sizeof(ddl_call), DDL_BROADCAST, in, out, count, type, DDL_SUM, root}, group);
}
ddl_status ddl_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op, int32_t root,
                      ddl_group* group) {
  return run({sizeof(ddl_call), DDL_REDUCE, in, out, count, type, op, root}, group);
}
ddl_status ddl_all_gather(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group) {
  return run({sizeof(ddl_call), DDL_ALL_GATHER, in, out, count, type, DDL_SUM, 0}, group);
}
ddl_status ddl_reduce_scatter(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                              ddl_group* group) {
  return run({sizeof(ddl_call), DDL_REDUCE_SCATTER, in, out, count, type, op, 0}, group);
}
ddl_status ddl_gather(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                      ddl_group* group) {
  return run({sizeof(ddl_call), DDL_GATHER, in, out, count, type, DDL_SUM, root}, group);
}
ddl_status ddl_scatter(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                       ddl_group* group) {
  return run({sizeof(ddl_call), DDL_SCATTER, in, out, count, type, DDL_SUM, root}, group);
}
ddl_status ddl_all_to_all(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group) {
  return run({sizeof(ddl_call), DDL_ALL_TO_ALL, in, out, count, type, DDL_SUM, 0}, group);
}
ddl_status ddl_send(const void* in, uint64_t count, ddl_type type, int32_t to, ddl_group* group) {
  return run({sizeof(ddl_call), DDL_SEND, in, nullptr, count, type, DDL_SUM, to}, group);
}
ddl_status ddl_receive(void* out, uint64_t count, ddl_type type, int32_t from, ddl_group* group) {
  return run({sizeof(ddl_call), DDL_RECEIVE, nullptr, out, count, type, DDL_SUM, from}, group);
}

ddl_status ddl_barrier(ddl_group* group) {
  std::uint8_t nothing = 0;
  return ddl_all_reduce(&nothing, &nothing, 1, DDL_UINT8, DDL_MAX, group);
}

ddl_status ddl_start(const ddl_call* call, ddl_group* given, ddl_request** request) {
  if (request) *request = nullptr;
  return call_on(given, [&](ddl_group& group) {
    check(request, "the pointer to the request is NULL", "ddl_wait needs the request");
    check(call, "the call is NULL", "it says what to do");
    const ddl::Call made = checked(known_fields(call, DDL_CALL, "ddl_call"), group);
    if (made.count == 0) return;
    ddl_request& started = take_request(group);
    try {
      ddl::Outcome outcome = group.communicator->start(made, started.call);
      if (outcome.what == ddl::Outcome::What::under_way) {
        *request = &started;
        return;
      }
      give_back(started);
      check_outcome(group, outcome);
    } catch (...) {
      if (started.is_under_way) give_back(started);
      throw;
    }
  });
}

ddl_status ddl_wait(ddl_request** request) {
  return finish(request, [&] { end(request, (*request)->group->communicator->wait((*request)->call)); });
}

ddl_status ddl_test(ddl_request** request, int* done) {
  if (!done)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the pointer to `done` is NULL", "it becomes 0 or 1"); });
  *done = 1;
  return finish(request, [&] {
    std::optional<ddl::Outcome> outcome = (*request)->group->communicator->test((*request)->call);
    *done = outcome.has_value();
    if (outcome) end(request, *outcome);
  });
}

ddl_status ddl_wait_all(size_t n, ddl_request** requests) {
  if (n > 0 && !requests)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the array of requests is NULL", "it has members"); });
  ddl_status first = DDL_SUCCESS;
  for (size_t i = 0; i < n; ++i)
    if (ddl_status status = ddl_wait(&requests[i]); first == DDL_SUCCESS) first = status;
  return first;
}

ddl_status ddl_allocate(size_t bytes, void** memory) {
  return guarded(DDL_ERROR_SYSTEM, [&] {
    check(memory, "the pointer to the memory is NULL", "it becomes the memory");
    *memory = nullptr;
    if (bytes == 0) return;
    void* made = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw ddl::Error(fmt::format("there are no {} bytes of memory", bytes));
    ::madvise(made, bytes, MADV_HUGEPAGE);
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    for (std::size_t at = 0; at < bytes; at += page) static_cast<volatile char*>(made)[at] = 0;
    *memory = made;
  });
}

ddl_status ddl_free(void* memory, size_t bytes) {
  return guarded(DDL_ERROR_ARGUMENT, [&] {
    if (memory && ::munmap(memory, bytes) != 0)
      throw BadArgument("this is not memory of ddl_allocate", std::strerror(errno), "give its bytes, too");
  });
}

const char* ddl_error_message(void) { return last_error; }

const char* ddl_error_string(ddl_status status) {
  switch (status) {
    case DDL_SUCCESS:
      return "success";
    case DDL_ERROR_ARGUMENT:
      return "invalid argument";
    case DDL_ERROR_STATE:
      return "the job is finalized";
    case DDL_ERROR_LAUNCH:
      return "the job cannot be joined";
    case DDL_ERROR_JOB:
      return "the job has failed";
    case DDL_ERROR_SYSTEM:
      return "out of memory or of another resource";
  }
  return "unknown status";
}

const char* ddl_version(void) { return DDL_LIBRARY_VERSION; }

}  // extern "C"
