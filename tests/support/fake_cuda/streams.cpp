#include "tests/support/fake_cuda/streams.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/fake_cuda/captures.hpp"

namespace fake_cuda {
namespace {

using namespace ddl::cuda;

struct Queue;

thread_local int mode_of_thread = kCaptureGlobal;

// Reached when that many operations of a queue are done.
struct Point {
  std::shared_ptr<Queue> queue;
  std::uint64_t operations;
  bool reached() const;
};

struct Operation {
  std::vector<Point> after;
  std::function<void()> run;
};

struct Queue {
  Context context = nullptr;
  unsigned long long id = 0;
  bool blocking = true;  // ordered with the legacy default stream
  bool legacy = false;   // is the legacy default stream
  bool closing = false;
  std::shared_ptr<Capture> capture;  // while it is captured
  std::deque<Operation> waiting;
  std::uint64_t submitted = 0, done = 0;
};

bool Point::reached() const { return queue->done >= operations; }

struct RecordedEvent {
  const Context context;
  std::vector<Point> at = {};                  // empty: never recorded, which counts as reached
  std::shared_ptr<Capture> capture = nullptr;  // where it was recorded last, if in one, and behind what
  Capture::Ends ends = {};
};

// A thread that waits, on its own stack.
struct Waiter {
  std::function<bool()> ready;
  std::condition_variable wakes = {};
};

// One lock for everything: this is about order, not speed. But nobody wakes in vain: many ranks of many
// streams share few cores. Never taken down, because threads of streams that still wait outlive main.
struct World {
  std::mutex mutex;
  std::set<Waiter*> waiters;
  std::map<Stream, std::shared_ptr<Queue>> queues;
  std::set<std::shared_ptr<Capture>> captures;  // under way
  std::set<Event> events;
  std::set<Graph> graphs;
};

World& world() {
  static World* the_one = new World;
  return *the_one;
}

// These two expect the lock to be held.
void wait_until(std::unique_lock<std::mutex>& lock, std::function<bool()> ready) {
  if (ready()) return;
  Waiter self{std::move(ready)};
  world().waiters.insert(&self);
  self.wakes.wait(lock, self.ready);
  world().waiters.erase(&self);
}
void tell_waiters() {
  for (Waiter* waiter : world().waiters)
    if (waiter->ready()) waiter->wakes.notify_one();
}

void work_off(const std::shared_ptr<Queue>& queue) {
  World& all = world();
  std::unique_lock lock(all.mutex);
  auto ready = [&] {
    if (queue->waiting.empty()) return queue->closing;
    for (const Point& point : queue->waiting.front().after)
      if (!point.reached()) return false;
    return true;
  };
  for (;;) {
    wait_until(lock, ready);
    if (queue->waiting.empty()) return;  // closing
    Operation operation = std::move(queue->waiting.front());
    queue->waiting.pop_front();
    tell_waiters();  // there is room
    lock.unlock();
    operation.run();
    operation = {};
    lock.lock();
    ++queue->done;
    tell_waiters();
  }
}

// The rest expects the lock to be held.

std::shared_ptr<Queue> find(Stream stream) {
  auto found = world().queues.find(stream);
  return found == world().queues.end() ? nullptr : found->second;
}

Point tail(const std::shared_ptr<Queue>& queue) { return {queue, queue->submitted}; }

// The legacy default stream comes after what all blocking streams of its context have so far; they come after
// what it has.
std::vector<Point> implied(const std::shared_ptr<Queue>& queue) {
  std::vector<Point> points;
  if (!queue->blocking) return points;
  for (const auto& [stream, other] : world().queues)
    if (other != queue && other->context == queue->context && other->blocking &&
        (queue->legacy || other->legacy) && !tail(other).reached())
      points.push_back(tail(other));
  return points;
}

// The legacy default stream, while one that is ordered with it is captured.
bool is_implicitly_captured(const std::shared_ptr<Queue>& queue) {
  for (const auto& [stream, other] : world().queues)
    if (queue->legacy && other->context == queue->context && other->blocking && other->capture) return true;
  return false;
}

Result put(Stream stream, std::vector<Point> after, std::function<void()> run) {
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  if (queue->capture && queue->capture->is_invalid) return kCaptureInvalid;
  if (queue->capture) return queue->capture->add(stream, std::move(run)), kSuccess;
  if (is_implicitly_captured(queue)) return kCaptureImplicit;
  for (Point& point : implied(queue)) after.push_back(std::move(point));
  queue->waiting.push_back({std::move(after), std::move(run)});
  ++queue->submitted;
  tell_waiters();
  return kSuccess;
}

// A driver keeps who enqueues waiting while a queue is full.
void await_room(std::unique_lock<std::mutex>& lock, Stream stream) {
  const char* limit = getenv("FAKE_CUDA_QUEUE");
  if (!limit) return;
  const std::size_t most = std::strtoul(limit, nullptr, 10);
  std::shared_ptr<Queue> queue = find(stream);
  wait_until(lock, [&] { return !queue || queue->capture || queue->waiting.size() < most; });
}

bool reached(const std::vector<Point>& points) {
  for (const Point& point : points)
    if (!point.reached()) return false;
  return true;
}

void wait_until_reached(std::unique_lock<std::mutex>& lock, const std::vector<Point>& points) {
  wait_until(lock, [&] { return reached(points); });
}

// What a call about a stream has to wait for: its own work, and what it is ordered behind.
Result points_of(Stream stream, std::vector<Point>& points) {
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  if (queue->capture) return queue->capture->is_invalid = true, kCaptureUnsupported;
  points = queue->legacy ? implied(queue) : std::vector<Point>{};
  points.push_back(tail(queue));
  return kSuccess;
}

RecordedEvent* recorded(Event event) {
  return world().events.count(event) ? reinterpret_cast<RecordedEvent*>(event) : nullptr;
}

}  // namespace

Stream make_stream(Context context, unsigned flags) {
  auto queue = std::make_shared<Queue>();
  static std::atomic<unsigned long long> streams{0};
  queue->context = context;
  queue->id = ++streams;
  queue->blocking = !(flags & kStreamNonBlocking);
  Stream stream = reinterpret_cast<Stream>(queue.get());
  {
    std::lock_guard lock(world().mutex);
    world().queues[stream] = queue;
  }
  std::thread(work_off, queue).detach();
  return stream;
}

void make_legacy_default(Stream stream) {
  std::lock_guard lock(world().mutex);
  find(stream)->legacy = true;
}

Result destroy_stream(Stream stream) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue || queue->legacy) return kInvalidHandle;
  queue->closing = true;
  world().queues.erase(stream);
  tell_waiters();
  return kSuccess;
}

Result submit(Stream stream, std::function<void()> operation) {
  std::unique_lock lock(world().mutex);
  await_room(lock, stream);
  return put(stream, {}, std::move(operation));
}

Result synchronize(Stream stream) {
  std::unique_lock lock(world().mutex);
  std::vector<Point> points;
  if (Result result = points_of(stream, points)) return result;
  wait_until_reached(lock, points);
  return kSuccess;
}

Result query(Stream stream) {
  std::lock_guard lock(world().mutex);
  std::vector<Point> points;
  if (Result result = points_of(stream, points)) return result;
  return reached(points) ? kSuccess : kNotReady;
}

Result id_of(Stream stream, unsigned long long& id) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  id = queue->id;
  return kSuccess;
}

Result context_of(Stream stream, Context& context) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  context = queue->context;
  return kSuccess;
}

void synchronize_all(Context context) {
  std::unique_lock lock(world().mutex);
  std::vector<Point> points;
  for (const auto& [stream, queue] : world().queues)
    if (queue->context == context) points.push_back(tail(queue));
  wait_until_reached(lock, points);
}

Event make_event(Context context) {
  std::lock_guard lock(world().mutex);
  Event event = reinterpret_cast<Event>(new RecordedEvent{context});
  world().events.insert(event);
  return event;
}

Result destroy_event(Event event) {
  std::lock_guard lock(world().mutex);
  if (!world().events.erase(event)) return kInvalidHandle;
  delete reinterpret_cast<RecordedEvent*>(event);
  return kSuccess;
}

Result record(Event event, Stream stream) {
  std::lock_guard lock(world().mutex);
  RecordedEvent* known = recorded(event);
  std::shared_ptr<Queue> queue = find(stream);
  if (!known || !queue || known->context != queue->context) return kInvalidHandle;
  known->capture = queue->capture;
  known->at.clear();
  if (queue->capture) return known->ends = queue->capture->ends(stream), kSuccess;
  known->at = queue->legacy ? implied(queue) : std::vector<Point>{};
  known->at.push_back(tail(queue));
  return kSuccess;
}

Result wait_for(Stream stream, Event event) {
  std::unique_lock lock(world().mutex);
  await_room(lock, stream);
  RecordedEvent* known = recorded(event);
  std::shared_ptr<Queue> queue = find(stream);
  if (!known || !queue) return kInvalidHandle;
  if (!known->capture) {
    if (!queue->capture) return put(stream, known->at, [] {});
    if (known->at.empty()) return kSuccess;
    return queue->capture->is_invalid = true, kCaptureIsolation;
  }
  if (known->capture->is_over) return kInvalidValue;
  if (queue->capture && queue->capture != known->capture)
    return queue->capture->is_invalid = known->capture->is_invalid = true, kCaptureMerge;
  if (queue->legacy) return kCaptureImplicit;
  queue->capture = known->capture;
  queue->capture->join(stream, known->ends);
  return kSuccess;
}

Result query(Event event) {
  std::lock_guard lock(world().mutex);
  RecordedEvent* known = recorded(event);
  if (!known) return kInvalidHandle;
  if (known->capture) return known->capture->is_invalid = true, kCapturedEvent;
  return reached(known->at) ? kSuccess : kNotReady;
}

Result synchronize(Event event) {
  std::unique_lock lock(world().mutex);
  RecordedEvent* known = recorded(event);
  if (!known) return kInvalidHandle;
  if (known->capture) return known->capture->is_invalid = true, kCapturedEvent;
  std::vector<Point> points = known->at;
  wait_until_reached(lock, points);
  return kSuccess;
}

Result begin_capture(Stream stream, int mode) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  if (queue->legacy || queue->capture) return kCaptureUnsupported;
  queue->capture = std::make_shared<Capture>(stream, mode);
  world().captures.insert(queue->capture);
  return kSuccess;
}

Result end_capture(Stream stream, Graph& graph) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue || !queue->capture) return kInvalidHandle;
  std::shared_ptr<Capture> capture = queue->capture;
  if (capture->first != stream) return kCaptureUnmatched;
  if (capture->mode != kCaptureRelaxed && capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  for (auto& [name, other] : world().queues)
    if (other->capture == capture) other->capture = nullptr;
  capture->is_over = true;
  world().captures.erase(capture);
  graph = nullptr;
  if (capture->is_invalid) return kCaptureInvalid;
  if (!capture->has_waited_for_all()) return kCaptureUnjoined;
  graph = reinterpret_cast<Graph>(new CapturedGraph(capture->graph));
  world().graphs.insert(graph);
  return kSuccess;
}

Result capture_status(Stream stream, int& status, unsigned long long* id) {
  std::lock_guard lock(world().mutex);
  std::shared_ptr<Queue> queue = find(stream);
  if (!queue) return kInvalidHandle;
  status = !queue->capture ? kCaptureNone : queue->capture->is_invalid ? kCaptureInvalidated : kCaptureActive;
  if (id && queue->capture) *id = queue->capture->number;
  return is_implicitly_captured(queue) ? kCaptureImplicit : kSuccess;
}

Result exchange_capture_mode(int& mode) {
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
  std::swap(mode, mode_of_thread);
  return kSuccess;
}

Result refuse_during_capture() {
  std::lock_guard lock(world().mutex);
  if (mode_of_thread == kCaptureRelaxed) return kSuccess;
  Result result = kSuccess;
  for (const std::shared_ptr<Capture>& capture : world().captures) {
    const bool own = capture->mode != kCaptureRelaxed && capture->thread == std::this_thread::get_id();
    if (!own && (capture->mode != kCaptureGlobal || mode_of_thread != kCaptureGlobal)) continue;
    capture->is_invalid = true;
    result = kCaptureUnsupported;
  }
  return result;
}

Result destroy_graph(Graph graph) {
  std::lock_guard lock(world().mutex);
  if (!world().graphs.erase(graph)) return kInvalidHandle;
  delete reinterpret_cast<CapturedGraph*>(graph);
  return kSuccess;
}

Result copy_graph(Graph graph, Graph& copy) {
  std::lock_guard lock(world().mutex);
  if (!world().graphs.count(graph)) return kInvalidHandle;
  copy = reinterpret_cast<Graph>(new CapturedGraph(*reinterpret_cast<CapturedGraph*>(graph)));
  world().graphs.insert(copy);
  return kSuccess;
}

Result launch_graph(Graph graph, Stream stream) {
  std::lock_guard lock(world().mutex);
  if (!world().graphs.count(graph)) return kInvalidHandle;
  const CapturedGraph& captured = *reinterpret_cast<CapturedGraph*>(graph);
  for (std::size_t node : captured.order())
    if (Result result = put(stream, {}, captured.nodes[node].run)) return result;
  return kSuccess;
}

}  // namespace fake_cuda
