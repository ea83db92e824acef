#include "interpose/nccl/companion.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/clock.hpp"
#include "interpose/nccl/config.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

using Verb = HierarchyStep::Verb;

const cuda::Driver& driver() { return cuda::process_driver(cuda::Load::kOnDemand)->driver; }

cuda::Stream as_driver_stream(cudaStream_t stream) { return reinterpret_cast<cuda::Stream>(stream); }

// A byte that nobody looks at, 0 where none can be had. Never freed, because that waits for the whole device,
// and so for a communicator that the program is about to abort as well. Its context is current.
cuda::DevicePointer nothing_in(cuda::Context context) {
  static std::mutex mutex;
  static auto* all = new std::map<cuda::Context, cuda::DevicePointer>;  // outlives exit handlers
  std::lock_guard lock(mutex);
  cuda::DevicePointer& nothing = (*all)[context];
  if (!nothing) driver().allocate(&nothing, 1);
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
bool is_waited_for(const HierarchyStep& step) { return step.verb != Verb::all_gather || step.dimension > 0; }

std::vector<HierarchyRoute> ways_of(const ddl_hierarchy& plans) {
  std::vector<HierarchyRoute> ways;
  for (int i = 0; i < plans.routes; ++i) ways.push_back(static_cast<HierarchyRoute>(plans.route[i]));
  return ways;
}

HierarchyLayout layout_of(const ddl_hierarchy& plans) {
  HierarchyLayout layout;
  for (int d = 0; d < plans.dimensions; ++d)
    layout.push_back({plans.dimension[d].extent, plans.dimension[d].first, plans.dimension[d].place});
  return layout;
}

}  // namespace

Companion::Companion(ncclComm_t whole, const ddl_hierarchy& plans, void* context)
    : whole_(whole),
      layout_(layout_of(plans)),
      cut_(HierarchyCut::with_segment(plans.segment_bytes)),
      context_(static_cast<cuda::Context>(context)),
      ways_(ways_of(plans)),
      parts_(parts_wanted(), nullptr) {}

// The rails before the streams that their calls are on.
Companion::~Companion() {
  tuner_.reset();
  if (rails_) engine()->destroy(rails_);
  cuda::CurrentContext current(driver(), context_);
  for (cuda::Stream stream : streams_) driver().stream_destroy(stream);
  for (cuda::Event event : events_) driver().event_destroy(event);
  for (cuda::Event event : {begin_, end_})
    if (event) driver().event_destroy(event);
}

ncclResult_t Companion::check(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return ncclSuccess;
  note(ncclUnhandledCudaError);
  return complain(nullptr, ncclUnhandledCudaError,
                  std::string("ncclAllReduce: ") + what + ": " + cuda::describe(driver(), result));
}

void Companion::note(ncclResult_t result) {
  ncclResult_t none = ncclSuccess;
  if (result != ncclSuccess) trouble_.compare_exchange_strong(none, result);
}

bool Companion::has(HierarchyRoute way) const {
  return std::find(ways_.begin(), ways_.end(), way) != ways_.end();
}

// ---- making ----

ncclResult_t Companion::split(std::size_t dimension, std::span<const std::byte> program_config) {
  const HierarchyDimension& group = layout_[dimension];
  std::vector<std::byte> config = capped_config(program_config);
  ncclResult_t result =
      original::ncclCommSplit(whole_, group.first, group.place, &parts_[dimension], config.data());
  note(result);
  return result;
}

void Companion::make_streams() {
  cuda::CurrentContext current(driver(), context_);
  bool all = current.result() == cuda::kSuccess &&
             driver().event_create(&begin_, cuda::kEventNoTiming) == cuda::kSuccess &&
             driver().event_create(&end_, cuda::kEventNoTiming) == cuda::kSuccess;
  for (std::size_t d = 0; all && d < layout_.size(); ++d) {
    cuda::Stream stream = nullptr;
    all = driver().stream_create(&stream, cuda::kStreamNonBlocking) == cuda::kSuccess;
    if (all) streams_.push_back(stream);
  }
  if (!all || ways_.size() < 2) return;
  try {
    tuner_ = std::make_unique<CompanionTuner>();
  } catch (const std::system_error&) {
    return;
  }
  nothing_ = nothing_in(context_);
}

bool Companion::is_ready() const {
  return trouble_ == ncclSuccess && streams_.size() == layout_.size() && parts().size() == parts_wanted() &&
         (nothing_ || ways_.size() < 2);
}

bool Companion::open_rails(const ncclUniqueId& id, const std::string& who, ddl_problem* problem) {
  return engine()->open_rails(&id, last().place, last().extent, context_, who.c_str(), &rails_, problem) ==
         DDL_STREAM_OK;
}

void Companion::keep_rails(bool all_have_them) {
  if (all_have_them) return;
  std::erase(ways_, HierarchyRoute::rails);
  if (rails_) engine()->destroy(std::exchange(rails_, nullptr));
}

bool Companion::tune(MeetingSeat seat, int ranks) {
  if (ways_.size() < 2) tuner_.reset();
  if (tuner_) tuner_->sit(std::move(seat), ranks, ways_.size());
  return ways_ != std::vector{HierarchyRoute::whole};
}

// ---- doing ----

bool Companion::is_large_enough(const Call& call) const {
  return is_worth_a_plan(layout_, call.count, bytes_of_type(call.type), cut_);
}

// What the driver cannot tell, because another stream is being captured, is left alone as well.
bool Companion::is_capturing(cudaStream_t stream) const {
  cuda::CurrentContext current(driver(), context_);
  int status = cuda::kCaptureNone;
  return driver().stream_is_capturing(as_driver_stream(stream), &status) != cuda::kSuccess ||
         status != cuda::kCaptureNone;
}

Planned Companion::choose(const Call& call) {
  Planned how{call, ways_[0]};
  const Bytes element = bytes_of_type(call.type);
  if (tuner_) {
    CompanionTuner::Way way = tuner_->next(call, call.count * element);
    how.way = ways_[way.index];
    how.why = way.clock ? "measured" : way.settled ? "faster without a plan" : "not measured";
    if (!tuner_->is_ended()) how.clock = std::move(way.clock);  // else the steps will say so
  }
  if (how.way == HierarchyRoute::rails && retired_) how.way = HierarchyRoute::whole;
  how.plan = hierarchy_plan(layout_, how.way, call.count, element, cut_);
  return how;
}

cuda::Event Companion::event_of(std::size_t step) {
  while (events_.size() <= step) {
    cuda::Event event = nullptr;
    if (driver().event_create(&event, cuda::kEventNoTiming) != cuda::kSuccess) return nullptr;
    events_.push_back(event);
  }
  return events_[step];
}

// What a try takes counts from the last arrival.
ncclResult_t Companion::meet(const Planned& one) const {
  if (!one.clock || trouble_ != ncclSuccess) return trouble_;
  auto nothing = reinterpret_cast<void*>(nothing_);
  return original::ncclAllReduce(nothing, nothing, 1, ncclInt8, ncclSum, whole_, one.call.stream);
}

ncclResult_t Companion::note_time(const Planned& one, std::atomic<Nanoseconds> Clocked::*what) {
  if (!one.clock) return ncclSuccess;
  auto note = std::make_unique<TimeNote>(TimeNote{one.clock, what});
  cuda::CurrentContext current(driver(), context_);
  ncclResult_t result = check(
      driver().launch_host_function(as_driver_stream(one.call.stream), note_time_now, note.get()), "time");
  if (result == ncclSuccess) note.release();
  return result;
}

ncclResult_t Companion::begin(const Planned& one) {
  if (ncclResult_t known = trouble_; known != ncclSuccess) return known;
  if (one.plan.steps.empty()) return ncclSuccess;
  cuda::CurrentContext current(driver(), context_);
  ncclResult_t result = check(driver().event_record(begin_, as_driver_stream(one.call.stream)), "begin");
  for (std::size_t d = 0; result == ncclSuccess && d < streams_.size(); ++d)
    result = check(driver().stream_wait_event(streams_[d], begin_, 0), "begin");
  return result;
}

// On the caller's stream, beside the steps: they touch other elements.
ncclResult_t Companion::tail(const Call& call, const HierarchyPlan& plan) const {
  if (plan.tail.count == 0) return ncclSuccess;
  const Bytes offset = plan.tail.first * bytes_of_type(call.type);
  return original::ncclAllReduce(static_cast<const std::byte*>(call.in) + offset,
                                 static_cast<std::byte*>(call.out) + offset, plan.tail.count, call.type,
                                 call.op, whole_, call.stream);
}

ncclResult_t Companion::issue_on_rails(const Call& call, const HierarchyStep& step) {
  const Bytes offset = step.whole.first * bytes_of_type(call.type);
  Call one = call;
  one.in = static_cast<const std::byte*>(step.reads_input ? call.in : call.out) + offset;
  one.out = static_cast<std::byte*>(call.out) + offset;
  one.count = step.whole.count;
  one.stream = reinterpret_cast<cudaStream_t>(streams_[step.dimension]);
  return submit_to(rails_, one);
}

ncclResult_t Companion::issue_step(const Call& call, const HierarchyStep& step) {
  if (step.on_rails) return issue_on_rails(call, step);
  const Bytes size = bytes_of_type(call.type);
  auto* out = static_cast<std::byte*>(call.out);
  const auto* in = step.reads_input ? static_cast<const std::byte*>(call.in) : out;
  auto stream = reinterpret_cast<cudaStream_t>(streams_[step.dimension]);
  ncclComm_t comm = part(step.dimension);
  switch (step.verb) {
    case Verb::reduce_scatter:
      return original::ncclReduceScatter(in + step.whole.first * size, out + step.mine.first * size,
                                         step.mine.count, call.type, call.op, comm, stream);
    case Verb::all_reduce:
      return original::ncclAllReduce(in + step.whole.first * size, out + step.whole.first * size,
                                     step.whole.count, call.type, call.op, comm, stream);
    case Verb::all_gather:
      return original::ncclAllGather(in + step.mine.first * size, out + step.whole.first * size,
                                     step.mine.count, call.type, comm, stream);
  }
  return ncclInternalError;
}

ncclResult_t Companion::step(const Call& call, const HierarchyPlan& plan, std::size_t index) {
  if (ncclResult_t known = trouble_; known != ncclSuccess) return known;
  const HierarchyStep& step = plan.steps[index];
  cuda::CurrentContext current(driver(), context_);
  ncclResult_t result = ncclSuccess;
  if (step.after)
    result = check(driver().stream_wait_event(streams_[step.dimension], event_of(*step.after), 0), "wait");
  if (result == ncclSuccess) result = issue_step(call, step);
  note(result);
  return result;
}

ncclResult_t Companion::done(const HierarchyPlan& plan, std::size_t index) {
  const HierarchyStep& step = plan.steps[index];
  if (!is_waited_for(step)) return ncclSuccess;
  cuda::CurrentContext current(driver(), context_);
  return check(driver().event_record(event_of(index), streams_[step.dimension]), "record");
}

// The stream of dimension 0 has the last step of every segment.
ncclResult_t Companion::end(const Planned& one) {
  if (one.plan.steps.empty()) return ncclSuccess;
  cuda::CurrentContext current(driver(), context_);
  ncclResult_t result = check(driver().event_record(end_, streams_[0]), "end");
  if (result != ncclSuccess) return result;
  return check(driver().stream_wait_event(as_driver_stream(one.call.stream), end_, 0), "end");
}

void Companion::let_rails_go() {
  retired_ = true;
  if (rails_) engine()->abort(rails_);
}

ncclResult_t Companion::state() const {
  ddl_problem said;
  ncclResult_t first = trouble_;
  if (first == ncclSuccess && rails_ && !retired_) first = result_of(engine()->state(rails_, &said));
  std::lock_guard lock(mutex_);  // so that nobody ends them meanwhile
  for (ncclComm_t part : parts_) {
    ncclResult_t of_part = ncclSuccess;
    if (first == ncclSuccess && part && original::ncclCommGetAsyncError(part, &of_part) == ncclSuccess)
      first = of_part;
  }
  return first;
}

ncclComm_t Companion::part(std::size_t dimension) const {
  std::lock_guard lock(mutex_);
  return parts_[dimension];
}

std::vector<ncclComm_t> Companion::parts() const {
  std::lock_guard lock(mutex_);
  std::vector<ncclComm_t> there;
  for (ncclComm_t part : parts_)
    if (part) there.push_back(part);
  return there;
}

std::vector<ncclComm_t> Companion::release() {
  note(ncclInvalidUsage);
  if (tuner_) tuner_->end();
  std::vector<ncclComm_t> there = parts();
  std::lock_guard lock(mutex_);
  parts_.assign(parts_.size(), nullptr);
  return there;
}

// ---- several calls side by side ----

namespace {

template <class Each>
ncclResult_t in_one_group(const std::vector<Planned>& calls, Each each) {
  const bool is_group = calls.size() > 1;
  ncclResult_t first = is_group ? original::ncclGroupStart() : ncclResult_t{ncclSuccess};
  auto keep = [&first](ncclResult_t result) {
    if (went_well(first)) first = result;
  };
  for (const Planned& one : calls) keep(each(one));
  if (is_group) keep(original::ncclGroupEnd());
  return first;
}

ncclResult_t enqueue(const std::vector<Planned>& calls) {
  std::size_t most = 0;
  ncclResult_t result = ncclSuccess;
  if (std::any_of(calls.begin(), calls.end(), [](const Planned& one) { return one.clock != nullptr; }))
    result = in_one_group(calls, [](const Planned& one) { return one.companion->meet(one); });
  for (const Planned& one : calls) {
    most = std::max(most, one.plan.steps.size());
    if (result == ncclSuccess) result = one.companion->start(one);
    if (result == ncclSuccess) result = one.companion->begin(one);
  }
  if (result == ncclSuccess)
    result = in_one_group(calls, [](const Planned& one) { return one.companion->tail(one.call, one.plan); });
  for (std::size_t i = 0; result == ncclSuccess && i < most; ++i) {
    result = in_one_group(calls, [i](const Planned& one) -> ncclResult_t {
      return i < one.plan.steps.size() ? one.companion->step(one.call, one.plan, i) : ncclSuccess;
    });
    for (const Planned& one : calls)
      if (result == ncclSuccess && i < one.plan.steps.size()) result = one.companion->done(one.plan, i);
  }
  for (const Planned& one : calls) {
    if (result == ncclSuccess) result = one.companion->end(one);
    if (result == ncclSuccess) result = one.companion->stop(one);
  }
  return result;
}

}  // namespace

ncclResult_t perform_planned(const std::vector<Planned>& calls) {
  if (calls.empty()) return ncclSuccess;
  Nanoseconds began = report_clock();
  ncclResult_t result = enqueue(calls);
  if (!went_well(result)) return result;
  const Nanoseconds each = (report_clock() - began) / static_cast<Nanoseconds>(calls.size());
  for (const Planned& one : calls)
    if (one.plan.steps.empty())
      count(one.call, one.why, each);
    else if (began != 0)
      count_planned(one.call, name_of(one.companion->layout(), one.way), each);
  return result;
}

}  // namespace ddl::nccl
