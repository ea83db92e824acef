#include "core/tune/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/plan/planner.hpp"

namespace ddl {
namespace {

constexpr const char* kMeasuring = "measured against the engine";
constexpr const char* kNoRoom = "DDL_STAGING_BYTES is too little";

}  // namespace

Selection::Selection(PlanStore& plans, const TuneSettings& settings, TuningCache& memory, TrialBudget& budget,
                     Agree agree)
    : plans_(plans),
      settings_(settings),
      memory_(memory),
      budget_(budget),
      agree_(std::move(agree)),
      limits_(plans.limits()),
      wire_(wire_rule(settings.gradients, plans.members().size(), plans.members().grid.spans_hosts())) {
  const Grid& grid = plans.members().grid;
  funnels_barriers_ = limits_.machine.crowded && !grid.spans_hosts() && grid.ranks() > 2;
  if (settings.options.dump_iter) dump_ = std::make_unique<Dump>(grid);
  if (!grid.spans_hosts() || limits_.rails < 2 || settings.deterministic) return;
  RailRates rates = memory.rail_rates(plans.name());
  const bool remembered = rates.size() == limits_.rails;
  if (remembered) limits_.machine.rail_rate = measured_rates_ = std::move(rates);
  watch_.emplace(limits_.rails, measured_rates_);
}

Selection::Key Selection::key_of(const CallShape& call) const {
  const WireFormat wire = wire_.format_of(call.task.kind, call.type, call.bytes);
  Task task = call.task;
  task.root = 0;
  return {task, call.variant, size_class(call.bytes), wire, call.barrier && funnels_barriers_};
}

Selection::Class& Selection::class_of(const CallShape& call) {
  const Key key = key_of(call);
  if (last_ && last_->key == key) return *last_;
  auto found =
      std::find_if(classes_.begin(), classes_.end(), [&](const auto& known) { return known->key == key; });
  if (found == classes_.end()) {
    auto made = std::make_unique<Class>();
    made->key = key;
    prepare(*made);
    found = classes_.insert(classes_.end(), std::move(made));
  }
  last_ = found->get();
  return *last_;
}

Route Selection::settled(Class& of_class, Task task) {
  Route route = of_class.settled;
  if (route.plan || route.original) return route;
  try {
    route.plan = &plan_of(of_class, task);
  } catch (const Error&) {  // alike on all ranks
    if (!settings_.has_original) throw;
    end_tuning(of_class);
    route.original = of_class.settled.original = kNoRoom;
  }
  return route;
}

Route Selection::nonblocking(const CallShape& call) {
  Class& of_class = class_of(call);
  Route route = settled(of_class, call.task);
  if (route.plan && route.plan->task_choice.has_parts())
    route.plan = &plan_of_way(of_class, route.plan->task_choice.by_itself(), call.task);
  return route;
}

const char* Selection::left_to_original(const CallShape& call) {
  Class& of_class = class_of(call);
  return of_class.tuner ? nullptr : settled(of_class, call.task).original;
}

PreparedPlan& Selection::plan_of(Class& of_class, Task task) {
  const auto root = static_cast<std::size_t>(task.root);
  if (of_class.of_root.size() <= root) of_class.of_root.resize(root + 1);
  PreparedPlan*& plan = of_class.of_root[root];
  if (plan) return *plan;
  const TaskChoice* way = of_class.settled_way          ? &*of_class.settled_way
                          : !of_class.task_ways.empty() ? &of_class.task_ways[0]
                                                        : nullptr;
  plan = way ? &plan_of_way(of_class, *way, task) : &plans_.plan_for(task, of_class.key.size_class);
  return *plan;
}

PreparedPlan& Selection::plan_of_way(const Class& of_class, TaskChoice way, Task task) {
  way.task = task;
  return plans_.prepare(way, of_class.key.size_class);
}

PreparedPlan& Selection::unmeasured(PlanStore& plans, Mode mode, Bytes bytes, const WireFormat& wire) {
  if (mode != Mode::ring && mode != Mode::nccl) return plans.plan_for({}, bytes, wire);
  const Bytes most = size_class(bytes);
  return plans.prepare(ring_choice(plans.members().grid, most, plans.limits(), wire), most);
}

Route Selection::blocking(const CallShape& call) {
  Class& of_class = class_of(call);
  Route route = settled(of_class, call.task);
  is_look_ = looks_at_rails(of_class, route);
  route.stays = !is_look_ && !(dump_ && call.task.kind == Kind::all_reduce);
  route.is_watched = !route.stays || of_class.tuner;
  if (is_look_) meet(route);
  if (is_look_ || !of_class.tuner) return route;
  Trial attempt = of_class.tuner->next(call.fingerprint);
  if (of_class.tuner->asks()) ask(*of_class.tuner);
  route.stays &= attempt.what == Trial::What::best;
  if (attempt.what != Trial::What::best && attempt.meets) meet(route);
  auto index = static_cast<std::size_t>(attempt.index);
  switch (attempt.what) {
    case Trial::What::candidate:
      route.plan = of_class.ways.empty() ? &plan_of_way(of_class, of_class.task_ways[index], call.task)
                                         : &plans_.prepare(*of_class.ways[index], of_class.key.size_class);
      break;
    case Trial::What::original:
      route.plan = nullptr;
      route.original = kMeasuring;
      break;
    case Trial::What::best:
      break;
  }
  return route;
}

void Selection::finished(const CallShape& call, const Route& route, Nanoseconds time,
                         const Observed* observed) {
  Class& of_class = class_of(call);
  if (std::exchange(is_look_, false)) {
    look_at_rails(call, *route.plan, *observed);
  } else if (of_class.tuner) {
    of_class.tuner->record(time);
    if (of_class.tuner->must_agree()) agree(of_class);
    if (of_class.tuner->settled()) {
      const bool has_compared = of_class.tuner->best_time() > 0;
      end_tuning(of_class);
      look_again_later(of_class, has_compared);
    }
  }
  if (dump_ && call.task.kind == Kind::all_reduce) dump(call, route, time, observed);
}

void Selection::end_tuning(Class& of_class) {
  of_class.tuner.reset();
  ++settlings_;
}

void Selection::agree_on(std::span<std::int64_t> numbers, Op op) {
  const Nanoseconds began = now();
  agree_(numbers, op);
  budget_.note_meeting(plans_.members().size(), now() - began);
}

// The question costs a meeting, too.
void Selection::ask(Tuner& tuner) {
  std::int64_t numbers[] = {tuner.usual(), budget_.spent(), budget_.elapsed(),
                            budget_.meeting(plans_.members().size())};
  agree_on(numbers, Op::max);
  const auto [usual, spent, elapsed, meeting] = numbers;
  const Nanoseconds cost = tuner.cost(usual, meeting);
  const bool may_try = TrialBudget::allows(meeting + cost, spent, elapsed);
  budget_.spend(meeting + (may_try ? cost : 0));
  tuner.answer(may_try);
}

void Selection::agree(Class& of_class) {
  Tuner& tuner = *of_class.tuner;
  agree_on(tuner.times(), Op::max);
  tuner.agreed();
  settle(of_class);
}

// Nobody leaves before all have come.
void Selection::meet(Route& route) {
  std::int64_t nothing[] = {0};
  agree_on(nothing, Op::max);
  route.began_anew = true;
}

// Every so many calls rank 0 says where its time went and whose times varied most.
void Selection::dump(const CallShape& call, const Route& route, Nanoseconds time, const Observed* observed) {
  if (observed)
    dump_->add(time, route.plan->choice, observed->dimensions);
  else
    dump_->add_original(time);
  if (dump_->calls() < settings_.options.dump_iter) return;
  calls_ += dump_->calls();
  // The rank rides in the low bits.
  constexpr std::int64_t kRanks = 1 << 20;
  Rank me = plans_.members().me;
  std::int64_t most[] = {dump_->jitter() * kRanks + me};
  agree_(most, Op::max);
  if (me == 0)
    log_info(
        fmt::format("call {}: the last {}; most jitter: rank {} with {:.1f} us; the last one: {} bytes by {}",
                    calls_, dump_->text(), most[0] % kRanks, static_cast<double>(most[0] / kRanks) * 1e-3,
                    call.bytes, observed ? route.plan->plan.name : "the original library"));
  dump_->clear();
}

}  // namespace ddl
