#include "core/hierarchy/hierarchical_communicator.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/clock.hpp"

namespace ddl {
namespace {

// Plans of so many different calls are kept; a program that makes more has them made anew.
constexpr std::size_t kMostPlans = 256;

// A byte that nobody looks at, 0 where none can be had. Never freed, because that waits for the whole device,
// and so for a communicator that the program is about to abort as well. Its context is current.
cuda::DevicePointer nothing_in(const cuda::Driver& driver, cuda::Context context) {
  static std::mutex mutex;
  static auto* all = new std::map<cuda::Context, cuda::DevicePointer>;  // outlives exit handlers
  std::lock_guard lock(mutex);
  cuda::DevicePointer& nothing = (*all)[context];
  if (!nothing) driver.allocate(&nothing, 1);
  return nothing;
}

// Keeps its Clocked alive until the stream has come there.
struct TimeNote {
  std::shared_ptr<Clocked> clock;
  std::atomic<Nanoseconds> Clocked::*what;
};

void note_time_now(void* data) {
  std::unique_ptr<TimeNote> note(static_cast<TimeNote*>(data));
  (*note->clock).*note->what = now();
}

// What follows a step on another stream: everything but the last all-gather.
bool is_waited_for(const HierarchyStep& step) {
  return step.verb != HierarchyVerb::all_gather || step.dimension > 0;
}

}  // namespace

HierarchicalCommunicator::HierarchicalCommunicator(const ddl_library& library, const cuda::Driver& driver,
                                                   cuda::Context context, void* whole, HierarchyShape shape)
    : library_(library),
      driver_(driver),
      context_(context),
      whole_(whole),
      layout_(std::move(shape.layout)),
      cut_(shape.cut),
      routes_(std::move(shape.routes)),
      parts_(parts_wanted(), nullptr) {
  for (std::size_t route = 0; route < names_.size(); ++route)
    names_[route] = ddl::name_of(layout_, static_cast<HierarchyRoute>(route));
}

// The rails before the streams that their calls are on.
HierarchicalCommunicator::~HierarchicalCommunicator() {
  tuner_.reset();
  if (rails_) library_.close_rails(rails_);
  cuda::CurrentContext current(driver_, context_);
  for (cuda::Stream stream : streams_) driver_.stream_destroy(stream);
  for (cuda::Event event : events_) driver_.event_destroy(event);
  for (cuda::Event event : {begin_, end_})
    if (event) driver_.event_destroy(event);
}

int HierarchicalCommunicator::check(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return 0;
  note(library_.cuda_error);
  const std::string text =
      std::string(library_.all_reduce_name) + ": " + what + ": " + cuda::describe(driver_, result);
  return library_.complain(library_.cuda_error, text.c_str());
}

void HierarchicalCommunicator::note(int result) {
  int none = 0;
  if (result != 0) trouble_.compare_exchange_strong(none, result);
}

bool HierarchicalCommunicator::has(HierarchyRoute route) const {
  return std::find(routes_.begin(), routes_.end(), route) != routes_.end();
}

// ---- making ----

void HierarchicalCommunicator::split(std::size_t dimension, const void* config) {
  const HierarchyDimension& group = layout_[dimension];
  note(library_.split(whole_, group.first, group.place, &parts_[dimension], config));
}

void HierarchicalCommunicator::make_streams() {
  cuda::CurrentContext current(driver_, context_);
  bool all = current.result() == cuda::kSuccess &&
             driver_.event_create(&begin_, cuda::kEventNoTiming) == cuda::kSuccess &&
             driver_.event_create(&end_, cuda::kEventNoTiming) == cuda::kSuccess;
  for (std::size_t d = 0; all && d < layout_.size(); ++d) {
    cuda::Stream stream = nullptr;
    all = driver_.stream_create(&stream, cuda::kStreamNonBlocking) == cuda::kSuccess;
    if (all) streams_.push_back(stream);
  }
  if (!all || routes_.size() < 2) return;
  try {
    tuner_ = std::make_unique<RouteTuner>();
  } catch (const std::system_error&) {
    return;
  }
  nothing_ = nothing_in(driver_, context_);
}

bool HierarchicalCommunicator::is_ready() const {
  return trouble_ == 0 && streams_.size() == layout_.size() && parts().size() == parts_wanted() &&
         (nothing_ || routes_.size() < 2);
}

std::string HierarchicalCommunicator::open_rails(const std::array<std::byte, DDL_RAILS_ID_BYTES>& id,
                                                 const std::string& who) {
  char why[DDL_RAILS_TEXT_BYTES] = "";
  rails_ = library_.open_rails(id.data(), last().place, last().extent, context_, who.c_str(), why);
  return rails_ ? "" : why;
}

void HierarchicalCommunicator::drop_rails() {
  std::erase(routes_, HierarchyRoute::rails);
  if (rails_) library_.close_rails(std::exchange(rails_, nullptr));
}

bool HierarchicalCommunicator::tune(std::unique_ptr<Exchange> rounds, bool verbose) {
  if (routes_.size() < 2) tuner_.reset();
  if (tuner_) tuner_->begin(std::move(rounds), routes_.size(), verbose);
  return routes_ != std::vector{HierarchyRoute::whole};
}

// ---- doing ----

bool HierarchicalCommunicator::is_large_enough(Elements count, Bytes element_bytes) const {
  return is_worth_a_plan(layout_, count, element_bytes, cut_);
}

// What the driver cannot tell, because another stream is being captured, is left alone as well.
bool HierarchicalCommunicator::is_capturing(cuda::Stream stream) const {
  cuda::CurrentContext current(driver_, context_);
  int status = cuda::kCaptureNone;
  return driver_.stream_is_capturing(stream, &status) != cuda::kSuccess || status != cuda::kCaptureNone;
}

const HierarchyPlan& HierarchicalCommunicator::plan_of(HierarchyRoute route, Elements count,
                                                       Bytes element_bytes) {
  const std::tuple key(route, count, element_bytes);
  if (auto known = plans_.find(key); known != plans_.end()) return known->second;
  if (plans_.size() >= kMostPlans) plans_.clear();
  return plans_.emplace(key, hierarchy_plan(layout_, route, count, element_bytes, cut_)).first->second;
}

PlannedCall HierarchicalCommunicator::choose(const HierarchyCall& call) {
  PlannedCall how{.call = call, .route = routes_[0], .on = this};
  if (tuner_) {
    RouteTuner::Choice found = tuner_->next(call);
    how.route = routes_[found.index];
    how.why = found.clock ? "measured" : found.settled ? "faster without a plan" : "not measured";
    if (!tuner_->is_ended()) how.clock = std::move(found.clock);  // else the steps will say so
  }
  if (how.route == HierarchyRoute::rails && retired_) how.route = HierarchyRoute::whole;
  how.plan = &plan_of(how.route, call.count, call.element_bytes);
  return how;
}

cuda::Event HierarchicalCommunicator::event_of(std::size_t step) {
  while (events_.size() <= step) {
    cuda::Event event = nullptr;
    if (driver_.event_create(&event, cuda::kEventNoTiming) != cuda::kSuccess) return nullptr;
    events_.push_back(event);
  }
  return events_[step];
}

// What a trial takes counts from the last arrival.
int HierarchicalCommunicator::meet(const PlannedCall& one) const {
  if (!one.clock || trouble_ != 0) return trouble_;
  return library_.meet(reinterpret_cast<void*>(nothing_), whole_, one.call.stream);
}

int HierarchicalCommunicator::note_time(const PlannedCall& one, std::atomic<Nanoseconds> Clocked::*what) {
  if (!one.clock) return 0;
  auto note_of_it = std::make_unique<TimeNote>(TimeNote{one.clock, what});
  cuda::CurrentContext current(driver_, context_);
  int result = check(driver_.launch_host_function(one.call.stream, note_time_now, note_of_it.get()), "time");
  if (result == 0) note_of_it.release();
  return result;
}

int HierarchicalCommunicator::begin(const PlannedCall& one) {
  if (int known = trouble_; known != 0) return known;
  if (one.plan->steps.empty()) return 0;
  cuda::CurrentContext current(driver_, context_);
  int result = check(driver_.event_record(begin_, one.call.stream), "begin");
  for (std::size_t d = 0; result == 0 && d < streams_.size(); ++d)
    result = check(driver_.stream_wait_event(streams_[d], begin_, 0), "begin");
  return result;
}

// On the caller's stream, beside the steps: they touch other elements.
int HierarchicalCommunicator::tail(const PlannedCall& one) const {
  const Range tail = one.plan->tail;
  const HierarchyCall& call = one.call;
  if (tail.count == 0) return 0;
  const Bytes offset = tail.first * call.element_bytes;
  return library_.all_reduce(static_cast<const std::byte*>(call.in) + offset,
                             static_cast<std::byte*>(call.out) + offset, tail.count, call.type, call.op,
                             whole_, call.stream);
}

int HierarchicalCommunicator::issue(const HierarchyCall& call, const HierarchyStep& step) {
  auto* out = static_cast<std::byte*>(call.out);
  const auto* in = step.reads_input ? static_cast<const std::byte*>(call.in) : out;
  const Bytes whole = step.whole.first * call.element_bytes, mine = step.mine.first * call.element_bytes;
  cuda::Stream stream = streams_[step.dimension];
  if (step.on_rails)
    return library_.all_reduce_on_rails(in + whole, out + whole, step.whole.count, call.type, call.op, rails_,
                                        stream);
  void* comm = part(step.dimension);
  switch (step.verb) {
    case HierarchyVerb::reduce_scatter:
      return library_.reduce_scatter(in + whole, out + mine, step.mine.count, call.type, call.op, comm,
                                     stream);
    case HierarchyVerb::all_gather:
      return library_.all_gather(in + mine, out + whole, step.mine.count, call.type, comm, stream);
    case HierarchyVerb::all_reduce:
      break;
  }
  return library_.all_reduce(in + whole, out + whole, step.whole.count, call.type, call.op, comm, stream);
}

int HierarchicalCommunicator::step(const PlannedCall& one, std::size_t index) {
  if (int known = trouble_; known != 0) return known;
  const HierarchyStep& step = one.plan->steps[index];
  cuda::CurrentContext current(driver_, context_);
  int result = 0;
  if (step.after)
    result = check(driver_.stream_wait_event(streams_[step.dimension], event_of(*step.after), 0), "wait");
  if (result == 0) result = issue(one.call, step);
  note(result);
  return result;
}

int HierarchicalCommunicator::done(const PlannedCall& one, std::size_t index) {
  const HierarchyStep& step = one.plan->steps[index];
  if (!is_waited_for(step)) return 0;
  cuda::CurrentContext current(driver_, context_);
  return check(driver_.event_record(event_of(index), streams_[step.dimension]), "record");
}

// The stream of dimension 0 has the last step of every segment.
int HierarchicalCommunicator::end(const PlannedCall& one) {
  if (one.plan->steps.empty()) return 0;
  cuda::CurrentContext current(driver_, context_);
  int result = check(driver_.event_record(end_, streams_[0]), "end");
  return result != 0 ? result : check(driver_.stream_wait_event(one.call.stream, end_, 0), "end");
}

void HierarchicalCommunicator::let_rails_go() {
  retired_ = true;
  if (rails_) library_.abort_rails(rails_);
}

int HierarchicalCommunicator::state() const {
  int first = trouble_;
  if (first == 0 && rails_ && !retired_) first = library_.state_of_rails(rails_);
  std::lock_guard lock(mutex_);  // so that nobody ends them meanwhile
  for (void* part : parts_)
    if (first == 0 && part) first = library_.state(part);
  return first;
}

void* HierarchicalCommunicator::part(std::size_t dimension) const {
  std::lock_guard lock(mutex_);
  return parts_[dimension];
}

std::vector<void*> HierarchicalCommunicator::parts() const {
  std::lock_guard lock(mutex_);
  std::vector<void*> there;
  for (void* part : parts_)
    if (part) there.push_back(part);
  return there;
}

std::vector<void*> HierarchicalCommunicator::release() {
  note(library_.invalid_usage);
  if (tuner_) tuner_->end();
  std::vector<void*> there = parts();
  std::lock_guard lock(mutex_);
  parts_.assign(parts_.size(), nullptr);
  return there;
}

// ---- several calls side by side ----

namespace {

template <class Each>
int in_one_group(const ddl_library& library, std::span<const PlannedCall> calls, Each each) {
  const bool is_group = calls.size() > 1;
  int first = is_group ? library.group_start() : 0;
  auto keep = [&](int result) {
    if (first == 0 || first == library.in_progress) first = result;
  };
  for (const PlannedCall& one : calls) keep(each(one));
  if (is_group) keep(library.group_end());
  return first;
}

}  // namespace

int enqueue(const ddl_library& library, std::span<const PlannedCall> calls) {
  std::size_t most = 0;
  int result = 0;
  if (std::any_of(calls.begin(), calls.end(), [](const PlannedCall& one) { return one.clock != nullptr; }))
    result = in_one_group(library, calls, [](const PlannedCall& one) { return one.on->meet(one); });
  for (const PlannedCall& one : calls) {
    most = std::max(most, one.plan->steps.size());
    if (result == 0) result = one.on->start(one);
    if (result == 0) result = one.on->begin(one);
  }
  if (result == 0)
    result = in_one_group(library, calls, [](const PlannedCall& one) { return one.on->tail(one); });
  for (std::size_t i = 0; result == 0 && i < most; ++i) {
    result = in_one_group(library, calls, [i](const PlannedCall& one) {
      return i < one.plan->steps.size() ? one.on->step(one, i) : 0;
    });
    for (const PlannedCall& one : calls)
      if (result == 0 && i < one.plan->steps.size()) result = one.on->done(one, i);
  }
  for (const PlannedCall& one : calls) {
    if (result == 0) result = one.on->end(one);
    if (result == 0) result = one.on->stop(one);
  }
  return result;
}

}  // namespace ddl
