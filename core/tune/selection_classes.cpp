// What a class of calls may be made by, what is remembered of it, and what it settles on.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/plan/planner.hpp"
#include "core/tune/selection.hpp"

namespace ddl {
namespace {

constexpr const char* kFasterByMeasurement = "faster than the engine, by measurement";
constexpr const char* kModeM = "mode m";

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

// Within a host staged blocks are fast once the ring that they come from (transport/staging_ring) lies in the
// caches, some rounds after the first (64 KiB, a ring of 2 MiB: calls 1 to 120 take twice as long as later
// ones).
int fill_for(Bytes bytes, bool spans_hosts) {
  constexpr Bytes kThrough = 8 << 20;
  constexpr int kLeast = 16, kMost = 128;
  return spans_hosts
             ? kLeast
             : static_cast<int>(std::clamp<Bytes>(kThrough / std::max<Bytes>(1, bytes), kLeast, kMost));
}

}  // namespace

void Selection::prepare(Class& of_class) {
  return of_class.key.task.kind == Kind::all_reduce ? prepare_all_reduce(of_class) : prepare_task(of_class);
}

void Selection::prepare_all_reduce(Class& of_class) {
  const Bytes bytes = of_class.key.size_class;
  const WireFormat& wire = of_class.key.wire;
  const Grid& grid = plans_.members().grid;
  const Mode mode = settings_.options.mode;
  if (mode == Mode::scatter && settings_.has_original) {
    of_class.settled = {nullptr, kModeM, Route::Original::in_two_steps};
    return;
  }
  if (mode == Mode::ring || mode == Mode::nccl) {
    of_class.settled.plan = &plans_.prepare(ring_choice(grid, bytes, limits_, wire), bytes);
    return;
  }
  if (of_class.key.is_funneled) {
    of_class.settled.plan = &plans_.prepare(funnel_choice(grid), bytes);
    return;
  }
  bool measures = !settings_.deterministic && plans_.members().size() > 1;
  if (measures && recall_all_reduce(of_class)) return;
  std::vector<Candidate>& measured = of_class.measured;
  if (!measured_rates_.empty()) measured = candidates(grid, bytes, limits_, wire);
  const std::vector<Candidate>& found = measured.empty() ? plans_.candidates_for(bytes, wire) : measured;
  of_class.settled.plan = &plans_.prepare(found[0].choice, bytes);
  if (!measures) return;
  if (mode == Mode::pick || mode == Mode::scatter) measure(of_class, found);
}

// What is predicted to take longer than that many times the best's time is not tried.
double Selection::hopeless_for(Bytes bytes) const {
  const bool is_least = bytes <= kLeastCalls && plans_.members().grid.spans_hosts();
  return is_least ? kHopelessLeast : hopeless(bytes, limits_.machine.shared_cores > 0);
}

// Sets up the tuner with the candidates that are worth a call.
void Selection::measure(Class& of_class, const std::vector<Candidate>& found) {
  const Bytes bytes = of_class.key.size_class;
  const bool is_least = bytes <= kLeastCalls && plans_.members().grid.spans_hosts();
  const double most = hopeless_for(bytes) * found[0].predicted.seconds;
  std::set<Algorithm> tried;
  for (const Candidate& candidate : found) {
    if (of_class.ways.size() == kMostCandidates || candidate.predicted.seconds >= most) break;
    const Algorithm between = candidate.choice.algorithm.back();
    const bool is_worth = !is_least || (!cuts(between) && tried.insert(between).second);
    if (is_worth || of_class.ways.empty()) of_class.ways.push_back(&candidate.choice);
  }
  begin_tuning(of_class, of_class.ways.size());
}

TunerPlan Selection::plan_of_tuning(const Class& of_class, std::size_t ways) const {
  const Bytes bytes = of_class.key.size_class;
  return {static_cast<int>(ways),
          rounds_for(bytes),
          settings_.has_original,
          noise_of(bytes),
          true,
          fill_for(bytes, plans_.members().grid.spans_hosts())};
}

void Selection::begin_tuning(Class& of_class, std::size_t ways) {
  of_class.tuner = std::make_unique<Tuner>(plan_of_tuning(of_class, ways));
}

// Within a host it depends on what lies in whose caches whether a block is better staged or read where it is:
// on what the program does between its calls (broadcasts of 64 KiB: with roots in turn 9.2 us staged and 12
// read, with one root and a barrier behind each 7.4 and 3.3), and a program does not go on as it has begun.
// What a reduction of more than two ranks comes to may depend on the way in its last bits: it keeps its own.
// A look after which the calls stay as they were makes the next one rarer, unless the program turned to other
// calls in the middle of it.
void Selection::look_again_later(Class& of_class, bool has_compared) {
  constexpr Bytes kLeast = 8 << 10;
  constexpr std::uint64_t kShortest = 4096, kLongest = 16384;
  const Members& members = plans_.members();
  std::vector<TaskChoice>& ways = of_class.task_ways;
  const bool may_change = !computes(of_class.key.task.kind) || members.size() == 2;
  if (ways.size() < 2 || !of_class.settled_way || of_class.settled.original || !may_change ||
      of_class.key.size_class < kLeast || members.grid.spans_hosts())
    return;
  const auto own = std::find(ways.begin(), ways.end(), *of_class.settled_way);
  if (own == ways.end()) return;
  const bool stays = own == ways.begin() && has_compared;
  of_class.rest = stays ? std::clamp(2 * of_class.rest, kShortest, kLongest) : kShortest;
  std::rotate(ways.begin(), own, own + 1);
  TunerPlan plan = plan_of_tuning(of_class, ways.size());
  plan.original = false;  // it had its chance
  plan.rest = of_class.rest;
  of_class.tuner = std::make_unique<Tuner>(plan);
}

// Until something else is settled on, the first candidate makes the calls; where nothing but rails is
// measured, it makes all.
void Selection::prepare_task(Class& of_class) {
  const Bytes bytes = of_class.key.size_class;
  const bool picks = settings_.options.mode == Mode::pick, knows_rails = !measured_rates_.empty();
  if ((!picks && !knows_rails) || settings_.deterministic || plans_.members().size() == 1) return;
  const std::vector<TaskCandidate>* found = nullptr;
  std::vector<TaskCandidate> measured;
  try {
    found = &plans_.candidates_for(of_class.key.task, bytes);
    if (found->front().choice.share.size() > 1 && knows_rails) {
      measured = task_candidates(HostMap(plans_.members().hosts), of_class.key.task, bytes, limits_);
      found = &measured;
    }
  } catch (const Error&) {  // settled() says so
    return;
  }
  if (!picks) {
    of_class.settled_way = found->front().choice.by_itself();
    return;
  }
  const double most = hopeless_for(bytes) * found->front().seconds;
  for (const TaskCandidate& candidate : *found) {
    if (of_class.task_ways.size() == kMostCandidates) break;
    if (of_class.task_ways.empty() || candidate.seconds <= most)
      of_class.task_ways.push_back(candidate.choice);
  }
  if (recall_task(of_class, *found)) return look_again_later(of_class, true);
  if (settings_.has_original || of_class.task_ways.size() > 1)
    begin_tuning(of_class, of_class.task_ways.size());
}

// What was measured over rails that are not what they were says nothing.
std::optional<TuningEntry> Selection::recall(const Class& of_class) const {
  if (memory_.has_read_none()) return std::nullopt;  // before a name is made
  std::optional<TuningEntry> known = memory_.find(name_of_plans(of_class.key), of_class.key.size_class);
  const bool has_no_use =
      known && known->original && (settings_.options.mode != Mode::pick || !settings_.has_original);
  if (!known || known->rail_rates != measured_rates_ || has_no_use) return std::nullopt;
  return known;
}

bool Selection::recall_all_reduce(Class& of_class) {
  std::optional<TuningEntry> known = recall(of_class);
  if (!known || known->task) return false;
  if (known->original) {
    of_class.settled = {nullptr, kFasterByMeasurement};
    return true;
  }
  try {
    known->choice.wire = of_class.key.wire;
    if (!is_usable(known->choice)) return false;
    of_class.settled.plan = &plans_.prepare(known->choice, of_class.key.size_class);
  } catch (const std::exception&) {
    return false;  // written by another version of the planner, or by hand: measure anew
  }
  return true;
}

bool Selection::recall_task(Class& of_class, const std::vector<TaskCandidate>& found) {
  const std::optional<TuningEntry> known = recall(of_class);
  if (!known) return false;
  if (known->original) {
    of_class.settled = {nullptr, kFasterByMeasurement};
    return true;
  }
  auto is_known = [&](const TaskCandidate& one) { return one.choice == known->task; };
  if (std::none_of(found.begin(), found.end(), is_known)) return false;
  of_class.settled_way = known->task;
  return true;
}

// What travels narrower takes other times, and so does another kind.
std::string Selection::name_of_plans(const Key& key) const {
  std::string name = plans_.name();
  if (!key.wire.is_exact()) name += fmt::format(", {} as {}", name_of(key.wire.of), name_of(key.wire.as));
  if (key.wire.where == WireWhere::everywhere) name += " everywhere";
  if (key.task.kind != Kind::all_reduce) name += fmt::format(", {}", name_of(key.task.kind));
  if (key.task.unequal) name += ", of unequal blocks";
  if (key.task.rooted != Rooted::no) name += key.task.rooted == Rooted::gather ? ", gather" : ", scatter";
  if (key.variant != 0) name += fmt::format(", variant {}", key.variant);
  return name;
}

// A cache file may have been written by anybody. May throw.
bool Selection::is_usable(const PlanChoice& choice) const {
  constexpr int kMostWindow = 64;
  constexpr Bytes kMostSegment = 64 << 20;
  const Grid& grid = plans_.members().grid;
  check_choice(grid, choice);
  auto is_there = [&](RailId rail) { return rail < limits_.rails; };
  return choice.window >= 1 && choice.window <= kMostWindow && choice.segment >= kLeastSegment &&
         choice.segment <= kMostSegment && choice.share.size() <= limits_.rails &&
         std::all_of(choice.rail.begin(), choice.rail.end(), is_there) &&
         staging_need(grid, choice) <= limits_.staging;
}

void Selection::settle(Class& of_class) {
  ++settlings_;
  of_class.shows_rails.reset();
  const Tuner& tuner = *of_class.tuner;
  const auto best = static_cast<std::size_t>(tuner.best());
  const Bytes bytes = of_class.key.size_class;
  TuningEntry entry{name_of_plans(of_class.key),
                    bytes,
                    tuner.original_wins(),
                    {},
                    measured_rates_,
                    static_cast<double>(tuner.best_time()) * 1e-3,
                    {}};
  of_class.settled = tuner.original_wins() ? Route{nullptr, kFasterByMeasurement} : Route{};
  if (of_class.key.task.kind != Kind::all_reduce) {
    if (of_class.settled_way != of_class.task_ways[best]) of_class.of_root.clear();
    entry.task = of_class.settled_way = of_class.task_ways[best];
  } else {
    entry.choice = *of_class.ways[best];
    if (!tuner.original_wins()) of_class.settled.plan = &plans_.prepare(entry.choice, bytes);
  }
  if (!settings_.has_original) {  // what jobs with an original have found out stays
    std::optional<TuningEntry> known = memory_.find(entry.grid, bytes);
    if (known && known->original) return;
  }
  memory_.learn(std::move(entry));
}

}  // namespace ddl
