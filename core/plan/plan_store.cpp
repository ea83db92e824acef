#include "core/plan/plan_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <set>
#include <span>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/task_planner.hpp"

namespace ddl {
namespace {

// Sends everything to all others, who are on this host, reduces what they sent, and that is all.
bool is_one_shot(const Plan& plan, Rank size) {
  auto others = static_cast<std::uint32_t>(size - 1);
  return size > 1 && plan.steps.size() == 2 && plan.steps[0].verb == Verb::send &&
         plan.steps[0].fabric == Fabric::local && plan.steps[0].peers == others &&
         plan.steps[1].verb == Verb::reduce && plan.steps[1].peers == others && plan.flows.size() == 1;
}

// But for the tokens all steps are about whole blocks of the call, and none rounds to what travels between
// other ranks.
bool is_brief(const Plan& plan) {
  auto is_whole = [&](const Step& step) {
    const Slice& slice = plan.slices[step.slice];
    return slice.parent == kWholeSegment && slice.last - slice.first == slice.parts &&
           step.fabric == Fabric::local && step.own != Source::scratch && step.into == Source::output &&
           step.blocks == 1 && !step.rounds;
  };
  for (std::size_t f = 0; f < plan.flows.size(); ++f) {
    auto steps = std::span(plan.steps).subspan(plan.flows[f].first, plan.flows[f].count);
    if (static_cast<int>(f) != plan.token_flow && !std::all_of(steps.begin(), steps.end(), is_whole))
      return false;
  }
  return true;
}

std::string_view bytes_of(std::span<const HostIndex> hosts) {
  return {reinterpret_cast<const char*>(hosts.data()), hosts.size_bytes()};
}

}  // namespace

PreparedPlan::Use& PreparedPlan::use_of(const char* collective) {
  auto use =
      std::find_if(uses.begin(), uses.end(), [&](const Use& one) { return one.collective == collective; });
  return use == uses.end() ? uses.emplace_back(Use{collective}) : *use;
}

// The same dimensions may be laid differently over the hosts.
PlanStore::PlanStore(Members members, const PlanLimits& limits)
    : members_(std::move(members)), limits_(limits) {
  const Grid& grid = members_.grid;
  for (int d = 0; d < grid.dimensions(); ++d)
    name_ += fmt::format("{}{} {}", d ? " x " : "", grid.fanout(d), grid.dimension(d).name);
  name_ += fmt::format(" #{:08x}", static_cast<std::uint32_t>(hash_of(bytes_of(members_.hosts))));
}

PreparedPlan& PlanStore::prepare(const PlanChoice& choice, Bytes bytes) {
  std::lock_guard lock(mutex_);
  return prepare_locked(choice, bytes);
}

PreparedPlan& PlanStore::prepare_locked(const PlanChoice& choice, Bytes bytes) {
  bytes = size_class(bytes);
  for (auto& known : plans_)
    if (known->task == Task{} && known->size_class == bytes && known->choice == choice) return *known;
  PreparedPlan& prepared = add({}, bytes, make_plan(members_.grid, members_.me, choice));
  prepared.choice = choice;
  const bool is_narrow = narrows(choice.wire, Fabric::local);  // those two hand over what is in memory
  prepared.is_one_shot = is_one_shot(prepared.plan, members_.size()) && bytes <= prepared.plan.segment &&
                         bytes <= PreparedPlan::kMostOneShot && !is_narrow;
  prepared.is_brief &= !is_narrow;
  if (const int all = shifts(members_.grid, choice, bytes); all > 1 && choice.shift == 0) {
    prepared.shifted.resize(static_cast<std::size_t>(all));
    prepared.shifted[0] = &prepared;
  }
  return prepared;
}

PreparedPlan& PlanStore::shifted(PreparedPlan& plan, std::size_t by) {
  if (PreparedPlan* known = plan.shifted[by]) return *known;
  std::lock_guard lock(mutex_);
  auto with_shift = [&](auto choice, int shift) {
    choice.shift = shift;
    return &prepare_locked(choice, plan.size_class);
  };
  plan.shifted[by] = plan.is_all_reduce() ? with_shift(plan.choice, static_cast<int>(by))
                                          : with_shift(plan.task_choice, kOtherLanes);
  return *plan.shifted[by];
}

PreparedPlan& PlanStore::plan_for(Task task, Bytes bytes, const WireFormat& wire) {
  std::lock_guard lock(mutex_);
  bytes = size_class(bytes);
  PreparedPlan*& plan = plan_of_[{task, bytes, {wire.of, wire.as, wire.where}}];
  if (plan) return *plan;
  if (task.kind == Kind::all_reduce)
    return *(plan = &prepare_locked(candidates_locked(bytes, wire)[0].choice, bytes));
  check(task);
  return *(plan = &prepare_locked(candidates_locked(task, bytes)[0].choice.by_itself(), bytes));
}

PreparedPlan* PlanStore::packed_for(Task task, Bytes bytes) {
  std::lock_guard lock(mutex_);
  bytes = size_class(bytes);
  const std::optional<TaskChoice> choice = choose_packed(HostMap(members_.hosts), task, bytes, limits_);
  return choice ? &prepare_locked(*choice, bytes) : nullptr;
}

const std::vector<Candidate>& PlanStore::candidates_for(Bytes bytes, const WireFormat& wire) {
  std::lock_guard lock(mutex_);
  return candidates_locked(size_class(bytes), wire);
}

const std::vector<Candidate>& PlanStore::candidates_locked(Bytes bytes, const WireFormat& wire) {
  std::vector<Candidate>& found = candidates_[{bytes, {wire.of, wire.as, wire.where}}];
  if (found.empty()) found = candidates(members_.grid, bytes, limits_, wire);
  return found;
}

const std::vector<TaskCandidate>& PlanStore::candidates_for(Task task, Bytes bytes) {
  std::lock_guard lock(mutex_);
  bytes = size_class(bytes);
  std::vector<TaskCandidate>& found = task_candidates_[{task, bytes}];
  if (found.empty()) found = candidates_locked(task, bytes);
  return found;
}

std::vector<TaskCandidate> PlanStore::candidates_locked(Task task, Bytes bytes) {
  constexpr Bytes kMostReduced = 16 << 10;
  const HostMap map(members_.hosts);
  std::vector<TaskCandidate> found = task_candidates(map, task, bytes, limits_);
  const Bytes all = bytes * static_cast<Bytes>(members_.size());
  if (task.kind != Kind::reduce_scatter || map.hosts() == 1 || all > kMostReduced) return found;
  for (TaskCandidate& one : found) one.seconds = predict(map, one.choice, bytes, limits_.machine);
  TaskCandidate reduces_all = found[0];
  reduces_all.choice.reduces_all = true;
  reduces_all.seconds = candidates_locked(size_class(all), {})[0].predicted.seconds;
  found.insert(found.begin() + (reduces_all.seconds > found[0].seconds ? 1 : 0), reduces_all);
  return found;
}

PreparedPlan& PlanStore::prepare(const TaskChoice& choice, Bytes bytes) {
  std::lock_guard lock(mutex_);
  check(choice.task);
  return prepare_locked(choice, size_class(bytes));
}

PreparedPlan& PlanStore::prepare_locked(const TaskChoice& choice, Bytes bytes) {
  constexpr unsigned kPairwiseTurns = 16;
  for (auto& known : plans_)
    if (known->task == choice.task && known->size_class == bytes && known->task_choice == choice)
      return *known;
  PreparedPlan& prepared =
      add(choice.task, bytes, make_plan(members_.grid, HostMap(members_.hosts), members_.me, choice));
  prepared.task_choice = choice;
  if (!takes_turns(choice) || choice.shift != 0) return prepared;
  // An order in which every second or every fourth call is as well of either kind as all are.
  for (unsigned turn = 0; turn < kPairwiseTurns; ++turn)
    prepared.shifted.push_back(std::popcount(turn) % 2 == 0 ? &prepared : nullptr);
  return prepared;
}

void PlanStore::check(Task task) const {
  if (task.root < 0 || task.root >= members_.size())
    throw Error(fmt::format("rank {} is not in a communicator of {}", task.root, members_.size()));
  if (is_between_two(task.kind) && task.root == members_.me)
    throw Error(fmt::format("rank {} cannot {} to or from itself", task.root, name_of(task.kind)),
                "that is a copy and no message");
}

namespace {

std::vector<Rank> ranks_beyond(const Plan& plan, const Members& members) {
  std::set<Rank> found(plan.peers.begin(), plan.peers.end());
  for (const Expected& message : plan.expected) found.insert(message.from);
  std::vector<Rank> beyond;
  for (Rank member : found)
    if (!members.is_here(member)) beyond.push_back(members.ranks[static_cast<std::size_t>(member)]);
  return beyond;
}

}  // namespace

PreparedPlan& PlanStore::add(Task task, Bytes bytes, Plan plan) {
  plans_.push_back(std::make_unique<PreparedPlan>());
  PreparedPlan& prepared = *plans_.back();
  static std::atomic<std::uint64_t> last_serial{0};
  prepared.serial = ++last_serial;
  prepared.size_class = bytes;
  prepared.task = task;
  prepared.plan = std::move(plan);
  for (Rank peer : prepared.plan.peers) prepared.to.push_back(members_.ranks[static_cast<std::size_t>(peer)]);
  prepared.beyond = ranks_beyond(prepared.plan, members_);
  const Bytes segments = prepared.plan.segment > 0 ? divide_up(bytes, prepared.plan.segment) : 1;
  for (const Step& step : prepared.plan.steps) {
    if (step.fabric == Fabric::wire)
      prepared.rails = std::max(prepared.rails, static_cast<RailId>(step.rail + 1));
    else if (step.verb == Verb::send && !step.is_token)
      prepared.staged +=
          static_cast<std::uint32_t>(std::min(segments, static_cast<Bytes>(prepared.plan.window)));
  }
  const auto& expected = prepared.plan.expected;
  prepared.hears_wire = std::any_of(expected.begin(), expected.end(),
                                    [&](const Expected& message) { return !members_.is_here(message.from); });
  prepared.is_brief = !prepared.hears_wire && prepared.rails == 0 && is_brief(prepared.plan);
  return prepared;
}

void PlanStore::collect(Counters& into) {
  std::lock_guard lock(mutex_);
  for (auto& prepared : plans_) {
    const WireFormat& wire = prepared->choice.wire;
    for (PreparedPlan::Use& use : prepared->uses) {
      const auto [collective, tally, narrowed] = std::exchange(use, {use.collective});
      if (!*collective || tally.calls == 0) continue;
      into.collect(collective, prepared->size_class, prepared->plan.name, tally);
      if (!wire.is_exact())
        into.count_narrowed(collective, fmt::format("{} as {}", name_of(wire.of), name_of(wire.as)),
                            {tally.calls, tally.bytes, narrowed.sent, narrowed.in_memory});
    }
  }
}

}  // namespace ddl
