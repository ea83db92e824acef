#include "core/tune/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/plan/planner.hpp"

namespace ddl {
namespace {

constexpr const char* kMeasuring = "measured against the engine";
constexpr const char* kFaster = "faster than the engine, by measurement";
constexpr const char* kModeM = "mode m";

// Rails are measured while they carry at least this much, so that neither the time of a message nor what a
// shaped link lets pass at once counts.
constexpr Bytes kMeasuresRails = 2 << 20;
// Candidates that the cost model holds to be this much slower than the best are not worth a call. What large
// buffers take is decided by the bytes that move, which the model knows better than a few calls on a busy
// machine.
double hopeless(Bytes bytes) { return bytes > 1 << 20 ? 1.02 : 1.2; }
constexpr std::size_t kMostCandidates = 4;

// Calls that count per candidate: short ones are noisy and cheap.
constexpr Bytes kShort = 64 << 10;
int rounds_for(Bytes bytes) { return bytes <= kShort ? 15 : bytes <= 1 << 20 ? 5 : 3; }

// Where calls of two ways take turns of microseconds with the kernel's scheduler, they differ by a tenth from
// run to run.
double noise_of(Bytes bytes) { return bytes <= kShort ? 0.15 : 0.05; }

std::uint64_t hash_of(std::span<const HostIndex> hosts) {
  std::uint64_t hash = 1469598103934665603ull;
  for (HostIndex host : hosts) hash = (hash ^ static_cast<std::uint64_t>(host)) * 1099511628211ull;
  return hash;
}

// What the rail times of an operation of that size are about.
Bytes timed_bytes(const PreparedPlan& prepared, Bytes bytes) {
  return std::min<Bytes>(bytes, prepared.plan.segment * static_cast<Bytes>(prepared.plan.window));
}

}  // namespace

Selection::Selection(Engine& engine, Communicator& communicator, const TuneSettings& settings,
                     TuneMemory& memory)
    : engine_(engine),
      communicator_(communicator),
      settings_(settings),
      memory_(memory),
      dump_(communicator.grid()) {
  if (settings.options.dump_iter) engine.time_dimensions(communicator);
  const Grid& grid = communicator.grid();
  for (int d = 0; d < grid.dimensions(); ++d)
    grid_ += fmt::format("{}{} {}", d ? " x " : "", grid.fanout(d), grid.dimension(d).name);
  // The same dimensions may be laid differently over the hosts.
  grid_ += fmt::format(" #{:08x}", static_cast<std::uint32_t>(hash_of(communicator.spec().hosts)));
  LaneId rails = communicator.limits().rails;
  if (!grid.spans_hosts() || rails < 2 || settings.deterministic) return;
  std::vector<double> rates = memory.rail_rates(grid_);
  bool remembered = rates.size() == rails;
  watch_.emplace(rails, remembered ? RailsAre::known : RailsAre::unknown);
  if (!remembered) return;
  Machine machine = communicator.limits().machine;
  machine.rail_rate = measured_rates_ = rates;
  engine.learn(communicator, machine);
}

Selection::SizeClass& Selection::class_of(const Call& call) {
  SizeClass& of_class = classes_[static_cast<std::size_t>(std::countr_zero(size_class(call.bytes())))];
  if (!of_class.ready) prepare(of_class, call.bytes());
  return of_class;
}

void Selection::prepare(SizeClass& of_class, Bytes bytes) {
  of_class.ready = true;
  Mode mode = settings_.options.mode;
  if (mode == Mode::scatter) {
    of_class.settled = {nullptr, kModeM, Way::Original::in_two_steps};
    return;
  }
  if (mode == Mode::ring || mode == Mode::nccl) {
    of_class.settled.plan = &engine_.prepare(
        communicator_, ring_choice(communicator_.grid(), bytes, communicator_.limits()), bytes);
    return;
  }
  bool measures = !settings_.deterministic && communicator_.size() > 1;
  if (measures && recall(of_class, bytes)) return;
  std::vector<Candidate> found = candidates(communicator_.grid(), size_class(bytes), communicator_.limits());
  of_class.settled.plan = &engine_.prepare(communicator_, found[0].choice, bytes);
  if (!measures) return;
  if (mode == Mode::pick) return measure(of_class, bytes, found);
  if (!measured_rates_.empty())
    memory_.learn({grid_, size_class(bytes), false, found[0].choice, measured_rates_});
}

// Sets up the tuner with the candidates that are worth a call.
void Selection::measure(SizeClass& of_class, Bytes bytes, const std::vector<Candidate>& found) {
  std::size_t worth = 1;
  while (worth < std::min(found.size(), kMostCandidates) &&
         found[worth].predicted.seconds < hopeless(bytes) * found[0].predicted.seconds)
    ++worth;
  of_class.plans.push_back(of_class.settled.plan);
  for (std::size_t i = 1; i < worth; ++i)
    of_class.plans.push_back(&engine_.prepare(communicator_, found[i].choice, bytes));
  of_class.tuner =
      std::make_unique<Tuner>(TunerPlan{static_cast<int>(worth), rounds_for(bytes), true, noise_of(bytes)});
}

// Whether calls of that plan tell how fast each rail is.
bool Selection::shows_rails(const PreparedPlan& prepared) const {
  const std::vector<std::uint32_t>& share = prepared.choice.share;
  return watch_ && prepared.plan.lanes == communicator_.limits().rails &&
         std::find(share.begin(), share.end(), 0u) == share.end() &&
         timed_bytes(prepared, prepared.size_class) >= kMeasuresRails;
}

bool Selection::recall(SizeClass& of_class, Bytes bytes) {
  std::optional<Lesson> lesson = memory_.find(grid_, size_class(bytes));
  // What was measured over rails that are not what they were says nothing.
  if (!lesson || lesson->rail_rates != measured_rates_) return false;
  if (lesson->original) {
    if (settings_.options.mode != Mode::pick) return false;
    of_class.settled = {nullptr, kFaster};
    return true;
  }
  try {
    if (!is_usable(lesson->choice)) return false;
    of_class.settled.plan = &engine_.prepare(communicator_, lesson->choice, bytes);
  } catch (const std::exception&) {
    return false;  // written by another version of the planner, or by hand: measure anew
  }
  return true;
}

// A cache file may have been written by anybody. May throw.
bool Selection::is_usable(const PlanChoice& choice) const {
  constexpr int kMostWindow = 64;
  constexpr Bytes kMostSegment = 64 << 20;
  const PlanLimits& limits = communicator_.limits();
  check_choice(communicator_.grid(), choice);
  auto is_there = [&](LaneId rail) { return rail < limits.rails; };
  return choice.window >= 1 && choice.window <= kMostWindow && choice.segment >= kLeastSegment &&
         choice.segment <= kMostSegment && choice.share.size() <= limits.rails &&
         std::all_of(choice.rail.begin(), choice.rail.end(), is_there) &&
         staging_need(communicator_.grid(), choice) <= limits.staging;
}

Way Selection::nonblocking(const Call& call) { return class_of(call).settled; }

Way Selection::blocking(Call& call) {
  SizeClass& of_class = class_of(call);
  Way way = of_class.settled;
  is_look_ = way.plan && shows_rails(*way.plan) && watch_->looks();
  way.is_watched = is_look_ || of_class.tuner || settings_.options.dump_iter;
  if (is_look_) meet(call);
  if (is_look_ || !of_class.tuner) return way;
  Try attempt = of_class.tuner->next(fingerprint_of(call));
  if (attempt.what != Try::What::best) meet(call);
  auto index = static_cast<std::size_t>(attempt.index);
  switch (attempt.what) {
    case Try::What::candidate:
      way.plan = of_class.plans[index];
      break;
    case Try::What::original:
      way.plan = nullptr;
      way.original = kMeasuring;
      break;
    case Try::What::best:
      break;
  }
  return way;
}

void Selection::finished(const Call& call, Nanoseconds time, const Operation* operation) {
  SizeClass& of_class = class_of(call);
  if (std::exchange(is_look_, false)) {
    look_at_rails(of_class, call.bytes(), operation);
  } else if (of_class.tuner) {
    of_class.tuner->record(time);
    if (of_class.tuner->must_agree()) agree(of_class, call);
  }
  if (settings_.options.dump_iter) dump(call, time, operation);
}

void Selection::agree(SizeClass& of_class, const Call& call) {
  Tuner& tuner = *of_class.tuner;
  reduce(tuner.times(), Op::max);
  tuner.agreed();
  settle(of_class, call.bytes());
  if (tuner.settled()) of_class.tuner.reset();
}

void Selection::look_at_rails(const SizeClass& of_class, Bytes bytes, const Operation* operation) {
  watch_->record(operation->rail_times());
  if (!watch_->must_agree()) return;
  reduce(watch_->times(), Op::min);
  std::vector<std::int64_t> times = watch_->agreed();
  if (!times.empty()) learn_rails(*of_class.settled.plan, bytes, times);
}

// When rails finish their shares tells how to share better; that holds for all sizes, so that every class is
// prepared anew.
void Selection::learn_rails(const PreparedPlan& plan, Bytes bytes, std::span<const std::int64_t> times) {
  Machine machine = communicator_.limits().machine;
  const Grid& grid = communicator_.grid();
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
  if (settings_.options.dbg_level > 0 && communicator_.spec().me == 0)
    for (double rate : machine.rail_rate) log_info(fmt::format("a rail carries {:.1f} MB/s", rate * 1e-6));
  engine_.learn(communicator_, machine);
  for (SizeClass& one : classes_) one = {};
}

void Selection::settle(SizeClass& of_class, Bytes bytes) {
  const Tuner& tuner = *of_class.tuner;
  auto best = static_cast<std::size_t>(tuner.best());
  of_class.settled = tuner.original_wins() ? Way{nullptr, kFaster} : Way{of_class.plans[best]};
  memory_.learn({grid_, size_class(bytes), tuner.original_wins(), of_class.plans[best]->choice,
                 measured_rates_, static_cast<double>(tuner.best_time()) * 1e-3});
}

// Nobody leaves before all have come.
void Selection::meet(Call& call) {
  std::int64_t nothing[] = {0};
  reduce(nothing, Op::max);
  call.began = now();
}

void Selection::reduce(std::span<std::int64_t> numbers, Op op) {
  Call call{numbers.data(), numbers.data(), numbers.size(), DType::int64, op, "", now()};
  engine_.run(communicator_, call);
}

// Every so many calls rank 0 says where its time went and whose times varied most.
void Selection::dump(const Call& call, Nanoseconds time, const Operation* operation) {
  if (operation)
    dump_.add(time, operation->prepared().choice, operation->dimension_times());
  else
    dump_.add_original(time);
  if (dump_.calls() < settings_.options.dump_iter) return;
  calls_ += dump_.calls();
  // The rank rides in the low bits.
  constexpr std::int64_t kRanks = 1 << 20;
  std::int64_t most[] = {dump_.jitter() * kRanks + communicator_.spec().me};
  reduce(most, Op::max);
  if (communicator_.spec().me == 0)
    log_info(
        fmt::format("call {}: the last {}; most jitter: rank {} with {:.1f} us; the last one: {} bytes by {}",
                    calls_, dump_.text(), most[0] % kRanks, static_cast<double>(most[0] / kRanks) * 1e-3,
                    call.bytes(), operation ? operation->prepared().plan.name : "the original library"));
  dump_.clear();
}

}  // namespace ddl
