// ddl.h: jobs and groups.
#include <atomic>
#include <numeric>
#include <utility>

#include "core/api/ddl_handles.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/session/identity.hpp"

using namespace ddl::api;
using ddl::Rank;

namespace {

// Jobs stay, as their groups do.
void keep(std::unique_ptr<World> world) {
  static std::mutex mutex;
  static auto& all = *new std::deque<std::unique_ptr<World>>;
  std::lock_guard lock(mutex);
  all.push_back(std::move(world));
}

ddl_group& add_group(World& world, std::vector<Rank> members, Rank me, ddl::CommId id) {
  static std::atomic<std::uint64_t> made{0};
  auto group = std::make_unique<ddl_group>();
  group->world = &world;
  group->serial = ++made;
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
  std::uint64_t& created = parent.created[members];
  ddl::CommId id = ddl::identity_of(parent.id, created + 1, members.size());
  for (Rank member : members) id = ddl::identity_of(id, static_cast<std::uint64_t>(member), 0);
  ddl_group& group = add_group(*parent.world, std::move(members), me, id);
  ++created;
  return group;
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
  return call_on(given, [&](ddl_group&) {
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
    check(std::none_of(world.requests.begin(), world.requests.end(),
                       [&](const auto& one) { return one->is_under_way && one->group == group; }),
          "a request of the group is not done", "ddl_wait ends it");
    std::erase_if(world.groups, [&](const auto& one) { return one.get() == group; });
  });
}

}  // extern "C"
