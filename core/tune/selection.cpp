#include "core/tune/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/plan/planner.hpp"

namespace ddl {
namespace {

constexpr const char* kMeasuring = "measured against the engine";
constexpr const char* kFaster = "faster than the engine, by measurement";
constexpr const char* kModeM = "mode m";
constexpr const char* kNoRoom = "DDL_STAGING_BYTES is too little";

// Rails are measured while they carry at least this much, so that neither the time of a message nor what a
// shaped link lets pass at once counts.
constexpr Bytes kMeasuresRails = 2 << 20;
// Candidates that the cost model holds to be this much slower than the best are not worth a call. What large
// buffers take is decided by the bytes that move, which the model knows better than a few calls on a busy
// machine. What the least ones take between hosts is decided by what messages cost the processors, which it
// does not know: there the best of each route between hosts is tried.
constexpr Bytes kLeastCalls = 1 << 10, kShort = 64 << 10;
constexpr double kHopelessLeast = 3;
double hopeless(Bytes bytes, bool takes_turns) {
  if (bytes <= kShort && takes_turns) return 1.5;
  return bytes > 1 << 20 ? 1.02 : 1.2;
}
constexpr std::size_t kMostCandidates = 4;

// Calls that count per candidate: short ones are noisy and cheap.
int rounds_for(Bytes bytes) { return bytes <= kShort ? 9 : bytes <= 1 << 20 ? 5 : 3; }

// Where calls of two routes take turns of microseconds with the kernel's scheduler, they differ by a tenth
// from run to run.
double noise_of(Bytes bytes) { return bytes <= kShort ? 0.15 : 0.05; }

// What the rail times of an operation of that size are about.
Bytes timed_bytes(const PreparedPlan& prepared, Bytes bytes) {
  const Bytes window = prepared.plan.segment * static_cast<Bytes>(prepared.plan.window);
  return static_cast<Bytes>(prepared.choice.wire.ratio() * static_cast<double>(std::min(bytes, window)));
}

}  // namespace

Selection::Selection(PlanStore& plans, const TuneSettings& settings, TuningCache& memory, TrialBudget& budget,
                     Agree agree)
    : plans_(plans),
      settings_(settings),
      memory_(memory),
      budget_(budget),
      agree_(std::move(agree)),
      limits_(plans.limits()) {
  const Grid& grid = plans.members().grid;
  if (settings.options.dump_iter) dump_ = std::make_unique<Dump>(grid);
  if (!grid.spans_hosts() || limits_.rails < 2 || settings.deterministic) return;
  std::vector<double> rates = memory.rail_rates(plans.name());
  bool remembered = rates.size() == limits_.rails;
  watch_.emplace(limits_.rails, remembered ? RailsAre::known : RailsAre::unknown);
  if (remembered) limits_.machine.rail_rate = measured_rates_ = rates;
}

Selection::Class& Selection::class_of(const CallShape& call) {
  const WireFormat wire =
      settings_.wire.format_of(call.task.kind, call.type, call.bytes, plans_.members().grid.spans_hosts());
  Key key{call.task.kind, call.variant, size_class(call.bytes), wire};
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
    of_class.tuner.reset();
    route.original = of_class.settled.original = kNoRoom;
  }
  return route;
}

PreparedPlan& Selection::plan_of(Class& of_class, Task task) {
  const auto root = static_cast<std::size_t>(task.root);
  if (of_class.of_root.size() <= root) of_class.of_root.resize(root + 1);
  PreparedPlan*& plan = of_class.of_root[root];
  if (!plan) plan = &plans_.plan_for(task, of_class.key.size_class);
  return *plan;
}

void Selection::prepare(Class& of_class) {
  const Bytes bytes = of_class.key.size_class;
  const WireFormat& wire = of_class.key.wire;
  const Grid& grid = plans_.members().grid;
  const Mode mode = settings_.options.mode;
  if (of_class.key.kind != Kind::all_reduce) {  // one rule chooses our way
    if (mode == Mode::pick && settings_.has_original && !settings_.deterministic &&
        plans_.members().size() > 1)
      of_class.tuner = std::make_unique<Tuner>(TunerPlan{1, rounds_for(bytes), true, noise_of(bytes), true});
    return;
  }
  if (mode == Mode::scatter && settings_.has_original) {
    of_class.settled = {nullptr, kModeM, Route::Original::in_two_steps};
    return;
  }
  if (mode == Mode::ring || mode == Mode::nccl) {
    of_class.settled.plan = &plans_.prepare(ring_choice(grid, bytes, limits_, wire), bytes);
    return;
  }
  bool measures = !settings_.deterministic && plans_.members().size() > 1;
  if (measures && recall(of_class)) return;
  std::vector<Candidate> found =
      measured_rates_.empty() ? plans_.candidates_for(bytes, wire) : candidates(grid, bytes, limits_, wire);
  of_class.settled.plan = &plans_.prepare(found[0].choice, bytes);
  if (!measures) return;
  if (mode == Mode::pick || mode == Mode::scatter) return measure(of_class, found);
  if (!measured_rates_.empty())
    memory_.learn({name_of_plans(wire), bytes, false, found[0].choice, measured_rates_});
}

// Sets up the tuner with the candidates that are worth a call.
void Selection::measure(Class& of_class, const std::vector<Candidate>& found) {
  const Bytes bytes = of_class.key.size_class;
  const bool is_least = bytes <= kLeastCalls && plans_.members().grid.spans_hosts();
  const double most = (is_least ? kHopelessLeast : hopeless(bytes, limits_.machine.shared_cores > 0)) *
                      found[0].predicted.seconds;
  std::set<Algorithm> tried;
  for (const Candidate& candidate : found) {
    if (of_class.ways.size() == kMostCandidates || candidate.predicted.seconds >= most) break;
    const Algorithm between = candidate.choice.algorithm.back();
    const bool is_worth = !is_least || (!cuts(between) && tried.insert(between).second);
    if (is_worth || of_class.ways.empty()) of_class.ways.push_back(candidate.choice);
  }
  of_class.tuner =
      std::make_unique<Tuner>(TunerPlan{static_cast<int>(of_class.ways.size()), rounds_for(bytes),
                                        settings_.has_original, noise_of(bytes), true});
}

PreparedPlan& Selection::unmeasured(Bytes bytes, const WireFormat& wire) const {
  const Mode mode = settings_.options.mode;
  if (mode != Mode::ring && mode != Mode::nccl) return plans_.plan_for({}, bytes, wire);
  const Bytes most = size_class(bytes);
  return plans_.prepare(ring_choice(plans_.members().grid, most, plans_.limits(), wire), most);
}

// Whether calls of that plan tell how fast each rail is.
bool Selection::shows_rails(const PreparedPlan& prepared) const {
  const std::vector<std::uint32_t>& share = prepared.choice.share;
  return watch_ && prepared.task.kind == Kind::all_reduce && prepared.plan.lanes == limits_.rails &&
         std::find(share.begin(), share.end(), 0u) == share.end() &&
         timed_bytes(prepared, prepared.size_class) >= kMeasuresRails;
}

bool Selection::recall(Class& of_class) {
  const Bytes bytes = of_class.key.size_class;
  std::optional<TuningEntry> known = memory_.find(name_of_plans(of_class.key.wire), bytes);
  // What was measured over rails that are not what they were says nothing.
  if (!known || known->rail_rates != measured_rates_) return false;
  if (known->original) {
    if (settings_.options.mode != Mode::pick || !settings_.has_original) return false;
    of_class.settled = {nullptr, kFaster};
    return true;
  }
  try {
    known->choice.wire = of_class.key.wire;
    if (!is_usable(known->choice)) return false;
    of_class.settled.plan = &plans_.prepare(known->choice, bytes);
  } catch (const std::exception&) {
    return false;  // written by another version of the planner, or by hand: measure anew
  }
  return true;
}

// What travels narrower takes other times.
std::string Selection::name_of_plans(const WireFormat& wire) const {
  if (wire.is_exact()) return plans_.name();
  return fmt::format("{}, {} as {}", plans_.name(), name_of(wire.of), name_of(wire.as));
}

// A cache file may have been written by anybody. May throw.
bool Selection::is_usable(const PlanChoice& choice) const {
  constexpr int kMostWindow = 64;
  constexpr Bytes kMostSegment = 64 << 20;
  const Grid& grid = plans_.members().grid;
  check_choice(grid, choice);
  auto is_there = [&](LaneId rail) { return rail < limits_.rails; };
  return choice.window >= 1 && choice.window <= kMostWindow && choice.segment >= kLeastSegment &&
         choice.segment <= kMostSegment && choice.share.size() <= limits_.rails &&
         std::all_of(choice.rail.begin(), choice.rail.end(), is_there) &&
         staging_need(grid, choice) <= limits_.staging;
}

Route Selection::blocking(const CallShape& call) {
  Class& of_class = class_of(call);
  Route route = settled(of_class, call.task);
  is_look_ = route.plan && shows_rails(*route.plan) && watch_->looks();
  route.is_watched = is_look_ || of_class.tuner || (dump_ && call.task.kind == Kind::all_reduce);
  if (is_look_) meet(route);
  if (is_look_ || !of_class.tuner) return route;
  Trial attempt = of_class.tuner->next(call.fingerprint);
  if (of_class.tuner->asks()) ask(*of_class.tuner);
  if (attempt.what != Trial::What::best && attempt.meets) meet(route);
  auto index = static_cast<std::size_t>(attempt.index);
  switch (attempt.what) {
    case Trial::What::candidate:
      if (!of_class.ways.empty()) route.plan = &plans_.prepare(of_class.ways[index], of_class.key.size_class);
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
    look_at_rails(of_class, call.bytes, *observed);
  } else if (of_class.tuner) {
    of_class.tuner->record(time);
    if (of_class.tuner->must_agree()) agree(of_class);
    if (of_class.tuner->settled()) of_class.tuner.reset();
  }
  if (dump_ && call.task.kind == Kind::all_reduce) dump(call, route, time, observed);
}

void Selection::ask(Tuner& tuner) {
  std::int64_t numbers[] = {tuner.usual(), budget_.spent(), budget_.elapsed()};
  agree_(numbers, Op::max);
  const auto [usual, spent, elapsed] = numbers;
  const Nanoseconds cost = tuner.cost(usual);
  const bool may_try = TrialBudget::allows(cost, spent, elapsed);
  if (may_try) budget_.spend(cost);
  tuner.answer(may_try);
}

void Selection::agree(Class& of_class) {
  Tuner& tuner = *of_class.tuner;
  agree_(tuner.times(), Op::max);
  tuner.agreed();
  settle(of_class);
}

void Selection::look_at_rails(const Class& of_class, Bytes bytes, const Observed& observed) {
  watch_->record(observed.rails);
  if (!watch_->must_agree()) return;
  agree_(watch_->times(), Op::min);
  std::vector<std::int64_t> times = watch_->agreed();
  if (!times.empty()) learn_rails(*of_class.settled.plan, bytes, times);
}

// When rails finish their shares tells how to share better; that holds for all sizes, so that every class is
// prepared anew.
void Selection::learn_rails(const PreparedPlan& plan, Bytes bytes, std::span<const std::int64_t> times) {
  Machine& machine = limits_.machine;
  const Grid& grid = plans_.members().grid;
  double hosts = 1;
  for (int d = 0; d < grid.dimensions(); ++d)
    if (grid.dimension(d).fabric == Fabric::wire) hosts *= grid.fanout(d);
  double on_all_rails = 2 * (hosts - 1) / hosts * static_cast<double>(timed_bytes(plan, bytes));
  const std::vector<std::uint32_t>& share = plan.choice.share;
  double parts = std::accumulate(share.begin(), share.end(), 0.0);
  machine.rail_rate.assign(times.size(), 0);
  for (std::size_t lane = 0; lane < share.size(); ++lane) {
    std::size_t rail = plan.choice.rail.empty() ? lane : plan.choice.rail[lane];
    auto seconds = 1e-9 * static_cast<double>(std::max<std::int64_t>(times[rail], 1));
    machine.rail_rate[rail] = on_all_rails * share[lane] / parts / seconds;
  }
  measured_rates_ = machine.rail_rate;
  if (settings_.options.dbg_level > 0 && plans_.members().me == 0)
    for (double rate : machine.rail_rate) log_info(fmt::format("a rail carries {:.1f} MB/s", rate * 1e-6));
  classes_.clear();
  last_ = nullptr;
}

void Selection::settle(Class& of_class) {
  const Tuner& tuner = *of_class.tuner;
  if (of_class.key.kind != Kind::all_reduce) {
    of_class.settled = tuner.original_wins() ? Route{nullptr, kFaster} : Route{};
    return;
  }
  auto best = static_cast<std::size_t>(tuner.best());
  of_class.settled = tuner.original_wins()
                         ? Route{nullptr, kFaster}
                         : Route{&plans_.prepare(of_class.ways[best], of_class.key.size_class)};
  const std::string name = name_of_plans(of_class.key.wire);
  if (!settings_.has_original) {  // what jobs with an original have found out stays
    std::optional<TuningEntry> known = memory_.find(name, of_class.key.size_class);
    if (known && known->original) return;
  }
  memory_.learn({name, of_class.key.size_class, tuner.original_wins(), of_class.ways[best], measured_rates_,
                 static_cast<double>(tuner.best_time()) * 1e-3});
}

// Nobody leaves before all have come.
void Selection::meet(Route& route) {
  std::int64_t nothing[] = {0};
  agree_(nothing, Op::max);
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
