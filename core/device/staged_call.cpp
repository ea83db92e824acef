#include "core/device/staged_call.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/partition.hpp"
#include "core/base/signals.hpp"
#include "core/device/flag.hpp"
#include "core/device/pinned_pool.hpp"
#include "core/device/staged_jobs.hpp"

namespace ddl {
namespace {

// Pieces are cut at multiples of this, which every element size divides.
constexpr Bytes kPieceUnit = 256;
// A call is cut for overlap only where the parts stay worth a copy of their own.
constexpr Bytes kLeastPiece = Bytes{256} << 10;

// How soon the worker looks again after what is under way elsewhere: nobody waits for that.
constexpr auto kMeanwhileEvery = std::chrono::microseconds(500);

// What a host function waits for.
struct FlagStep {
  Flag flag;
  std::uint32_t value;
};

void wait_for_flag(void* data) {
  std::unique_ptr<FlagStep> step(static_cast<FlagStep*>(data));
  for (Patience patience; !step->flag.reached(step->value);) patience.wait();
}

}  // namespace

struct StagedCalls::State {
  struct Worker {
    StagedJobs jobs;
    std::condition_variable changed;
    bool looks = false;  // has had work, so that there may be something to look after
    std::thread thread;
  };

  State(const cuda::Driver& driver, cuda::Context context, const StagedOptions& options);
  ~State();

  Submitted submit(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work);
  Bytes piece_bytes(Bytes block_bytes, std::uint32_t blocks) const;
  Submitted may_enqueue(cuda::Stream stream);
  bool let_wait(cuda::Stream later, cuda::Stream earlier);
  bool enqueue(StagedCallPool::Entry& call, cuda::Stream stream);
  bool bring_in(StagedCallPool::Entry& call, std::uint64_t index, cuda::Stream stream);
  void give(StagedJob job);
  bool take_out(const StagedCall& call, std::uint64_t index, cuda::Stream stream);
  cuda::Result raise(cuda::Stream stream, const Flag& flag, std::uint32_t value);
  cuda::Result wait(cuda::Stream stream, const Flag& flag, std::uint32_t value);

  void pin();
  cuda::Result cut();
  void unpin();
  void forget_events();
  void use_workers(std::uint32_t count);
  bool streams_have_passed();
  void start_worker();
  void work_off(std::uint32_t number);
  void do_job(const StagedJob& job);
  void do_chunk(const StagedJob& job);
  void await_job(Worker& worker, std::unique_lock<std::mutex>& lock);
  void fail(const std::string& why);
  bool fine(cuda::Result result, const char* what);
  StagedSlot& slot(std::uint64_t ticket) { return slots[ticket % slots.size()]; }

  const cuda::Driver& driver;
  const cuda::Context context;
  StagedOptions options;
  Bytes area_bytes;
  pinned_pool::Block pinned;
  std::vector<StagedSlot> slots;
  cuda::Event between_streams = nullptr;

  std::mutex submitting;  // held while a call is enqueued, so that tickets, streams and jobs are in one order
  std::uint64_t next_ticket;
  StagedCallPool calls;

  std::mutex mutex;            // of what follows
  std::deque<Worker> workers;  // as many as there are before the first call
  bool closing = false;
  std::string failure;
  std::atomic<bool> failed{false};
};

StagedCalls::State::State(const cuda::Driver& cuda_driver, cuda::Context cuda_context,
                          const StagedOptions& chosen)
    : driver(cuda_driver),
      context(cuda_context),
      options(chosen),
      area_bytes(
          round_up(std::max(chosen.chunk_bytes, kPieceUnit * std::max(1u, chosen.most_blocks)), kPieceUnit)),
      slots(std::max(1u, chosen.chunks)),
      next_ticket(chosen.first_ticket) {
  pin();
  start_worker();
}

void StagedCalls::State::start_worker() {
  std::lock_guard lock(mutex);
  const auto number = static_cast<std::uint32_t>(workers.size());
  Worker& worker = workers.emplace_back();
  SignalsBlocked blocked;
  worker.thread = std::thread([this, number] { work_off(number); });
}

void StagedCalls::State::use_workers(std::uint32_t count) {
  const auto chunks = std::max<std::uint32_t>(static_cast<std::uint32_t>(slots.size()), 2 * count);
  const Bytes area = (pinned.bytes / chunks - 2 * kFlagStride) / 2 / kPieceUnit * kPieceUnit;
  if (count < 2 || area < kPieceUnit * std::max(1u, options.most_blocks)) return;
  cuda::CurrentContext current(driver, context);
  forget_events();
  area_bytes = area;
  slots.assign(chunks, {});
  if (cuda::Result result = cut(); result != cuda::kSuccess)
    return fail("CUDA refuses an event: " + cuda::describe(driver, result));
  while (workers.size() < count) start_worker();
}

StagedCalls::State::~State() {
  {
    std::lock_guard lock(mutex);
    closing = true;
    for (Worker& worker : workers) worker.changed.notify_all();
  }
  for (Worker& worker : workers) worker.thread.join();
  if (streams_have_passed())
    unpin();
  else
    log_warning(Error::sentence("a stream does not come to an end",
                                "a collective on it was aborted, and " +
                                    std::to_string(2 * area_bytes * slots.size() >> 20) +
                                    " MiB of pinned memory that it may still use are left behind",
                                ""));
}

void StagedCalls::State::pin() {
  cuda::CurrentContext current(driver, context);
  const Bytes bytes = slots.size() * (2 * kFlagStride + 2 * area_bytes);
  cuda::Result result = current.result();
  if (result == cuda::kSuccess) result = pinned_pool::take(driver, context, bytes, pinned);
  if (result == cuda::kSuccess) result = cut();
  if (result == cuda::kSuccess) result = driver.event_create(&between_streams, cuda::kEventNoTiming);
  if (result == cuda::kSuccess) return;
  unpin();
  throw Error(
      "cannot pin " + std::to_string(bytes >> 20) + " MiB of host memory: " + cuda::describe(driver, result),
      "collectives on this device are staged there", "lower the size of chunks or raise `ulimit -l`");
}

// One block of pinned memory for all slots: the flags of each, then the areas.
cuda::Result StagedCalls::State::cut() {
  cuda::Result result = cuda::kSuccess;
  for (std::size_t i = 0; i < slots.size() && result == cuda::kSuccess; ++i) {
    std::size_t flags = 2 * kFlagStride * i, areas = 2 * (kFlagStride * slots.size() + area_bytes * i);
    auto flag = [&](std::size_t at) {
      return Flag{new (pinned.host + at) std::uint32_t(static_cast<std::uint32_t>(options.first_ticket - 1)),
                  pinned.device + at};
    };
    slots[i] = {pinned.host + areas,
                pinned.host + areas + area_bytes,
                flag(flags),
                flag(flags + kFlagStride),
                nullptr,
                false};
    result = driver.event_create(&slots[i].passed, cuda::kEventNoTiming);
  }
  return result;
}

void StagedCalls::State::forget_events() {
  for (StagedSlot& slot : slots)
    if (slot.passed) driver.event_destroy(std::exchange(slot.passed, nullptr));
}

void StagedCalls::State::unpin() {
  cuda::CurrentContext current(driver, context);
  forget_events();
  if (between_streams) driver.event_destroy(between_streams);
  if (pinned.host) pinned_pool::give_back(context, pinned);
  pinned.host = nullptr;
}

bool StagedCalls::State::streams_have_passed() {
  cuda::CurrentContext current(driver, context);
  Nanoseconds until = now() + options.patience;
  for (const StagedSlot& slot : slots)
    for (Patience patience; driver.event_query(slot.passed) == cuda::kNotReady;) {
      if (now() > until) return false;
      patience.wait();
    }
  return true;
}

// ---- the caller's side ----

Submitted StagedCalls::State::submit(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work) {
  std::uint32_t blocks = std::max({buffers.in_blocks, buffers.out_blocks, buffers.blocks_anywhere, 1u});
  if (blocks > std::max(1u, options.most_blocks)) {
    fail("a call of " + std::to_string(blocks) + " blocks, where room was made for " +
         std::to_string(options.most_blocks));
    return Submitted::kFailed;
  }
  std::lock_guard lock(submitting);
  if (failed) return Submitted::kFailed;
  if (buffers.block_bytes == 0) return Submitted::kEnqueued;
  cuda::CurrentContext current(driver, context);
  if (!fine(current.result(), "its context")) return Submitted::kFailed;
  Submitted how = may_enqueue(stream);
  for (cuda::Stream other : buffers.along)
    if (how == Submitted::kEnqueued) how = may_enqueue(other);
  if (how != Submitted::kEnqueued) return how;

  // Released with its last chunk, but not given out while `submitting` is held.
  StagedCallPool::Entry& call = calls.take();
  call.buffers = buffers;
  call.pieces.assign(buffers.pieces.begin(), buffers.pieces.end());
  call.buffers.pieces = call.pieces;
  call.buffers.along = {};
  call.work = std::move(work);
  call.piece = piece_bytes(buffers.block_bytes, blocks);
  call.count = (buffers.block_bytes + call.piece - 1) / call.piece;
  call.left = call.count;
  call.first_ticket = next_ticket;
  bool well = true;
  for (cuda::Stream other : buffers.along) well = well && let_wait(stream, other);
  well = well && enqueue(call, stream);
  for (cuda::Stream other : buffers.along) well = well && let_wait(other, stream);
  return well ? Submitted::kEnqueued : Submitted::kFailed;
}

Submitted StagedCalls::State::may_enqueue(cuda::Stream stream) {
  int capture = cuda::kCaptureNone;
  if (!fine(cuda::capture_status(driver, stream, capture), "the stream")) return Submitted::kFailed;
  return what_captures(capture);
}

// What is on the later one from now on comes behind what is on the earlier one.
bool StagedCalls::State::let_wait(cuda::Stream later, cuda::Stream earlier) {
  return fine(driver.event_record(between_streams, earlier), "an event") &&
         fine(driver.stream_wait_event(later, between_streams, 0), "an event");
}

// The same on all ranks: from what they have in common alone.
Bytes StagedCalls::State::piece_bytes(Bytes block_bytes, std::uint32_t blocks) const {
  Bytes overlapped = round_up(divide_up(block_bytes, slots.size()), kPieceUnit);
  Bytes most = area_bytes / blocks / kPieceUnit * kPieceUnit;  // not 0: see area_bytes
  return std::min(most, std::max(overlapped, kLeastPiece));
}

bool StagedCalls::State::enqueue(StagedCallPool::Entry& call, cuda::Stream stream) {
  const std::uint64_t depth = slots.size();
  std::uint64_t in = 0, out = 0;
  bool well = true;
  for (; well && in < call.count; ++in) {
    if (in >= depth) well = take_out(call, out++, stream);
    well = well && bring_in(call, in, stream);
  }
  while (well && out < call.count) well = take_out(call, out++, stream);
  next_ticket += in;
  // Where it broke off, the slots are the stream's until it has come this far. The worker raises `done` for
  // what it was given, so that the stream does get here.
  std::uint64_t touched = std::min(in, depth);
  for (std::uint64_t ticket = next_ticket - touched; ticket != next_ticket; ++ticket)
    well &= fine(driver.event_record(slot(ticket).passed, stream), "an event");
  return well;
}

// One chunk's way to the worker.
bool StagedCalls::State::bring_in(StagedCallPool::Entry& call, std::uint64_t index, cuda::Stream stream) {
  std::uint64_t ticket = call.first_ticket + index;
  StagedSlot& place = slot(ticket);
  if (place.used && index < slots.size() &&
      !fine(driver.stream_wait_event(stream, place.passed, 0), "an event"))
    return false;
  place.used = true;
  const StagedChunk chunk = call.chunk(index, place);
  const bool copied = call.each_input(chunk, [&](cuda::DevicePointer from, Bytes at, Bytes bytes) {
    return fine(driver.copy_to_host_async(place.in + at, from, bytes, stream), "a copy from the device");
  });
  if (!copied || !fine(raise(stream, place.ready, static_cast<std::uint32_t>(ticket)), "a flag"))
    return false;
  give({&call, index});
  return true;
}

void StagedCalls::State::give(StagedJob job) {
  std::lock_guard lock(mutex);
  Worker& worker = workers[job.index % workers.size()];
  worker.jobs.push(std::move(job));
  worker.changed.notify_one();
}

// One chunk's way back.
bool StagedCalls::State::take_out(const StagedCall& call, std::uint64_t index, cuda::Stream stream) {
  std::uint64_t ticket = call.first_ticket + index;
  StagedSlot& place = slot(ticket);
  if (!fine(wait(stream, place.done, static_cast<std::uint32_t>(ticket)), "a flag")) return false;
  return call.each_output(call.chunk(index, place), [&](cuda::DevicePointer to, Bytes at, Bytes bytes) {
    return fine(driver.copy_to_device_async(to, place.out + at, bytes, stream), "a copy to the device");
  });
}

cuda::Result StagedCalls::State::raise(cuda::Stream stream, const Flag& flag, std::uint32_t value) {
  if (options.ordering == FlagOrdering::kStreamMemoryOperations)
    return driver.stream_write_value(stream, flag.on_device, value, cuda::kWriteValueDefault);
  return driver.set_values(flag.on_device, value, 1, stream);
}

cuda::Result StagedCalls::State::wait(cuda::Stream stream, const Flag& flag, std::uint32_t value) {
  if (options.ordering == FlagOrdering::kStreamMemoryOperations)
    return driver.stream_wait_value(stream, flag.on_device, value, cuda::kWaitValueGreaterOrEqual);
  auto step = std::make_unique<FlagStep>(FlagStep{flag, value});
  cuda::Result result = driver.launch_host_function(stream, wait_for_flag, step.get());
  if (result == cuda::kSuccess) step.release();  // the function owns it from now on
  return result;
}

// ---- the worker's side ----

void StagedCalls::State::work_off(std::uint32_t number) {
  std::unique_lock lock(mutex);
  Worker& worker = workers[number];
  for (;;) {
    await_job(worker, lock);
    if (worker.jobs.empty()) return;
    StagedJob job = worker.jobs.pop();
    worker.looks = number == 0;
    lock.unlock();
    do_job(job);
    job = {};
    lock.lock();
  }
}

// Returns without a job when this is closing and there is nothing else to look after either.
void StagedCalls::State::await_job(Worker& worker, std::unique_lock<std::mutex>& lock) {
  for (Nanoseconds until = 0; worker.jobs.empty();) {
    lock.unlock();
    const bool more = worker.looks && options.meanwhile && options.meanwhile();
    lock.lock();
    if (!worker.jobs.empty()) return;
    if (closing && until == 0) until = now() + options.patience;
    if (closing && (!more || (failed && now() > until))) return;
    if (more)
      worker.changed.wait_for(lock, kMeanwhileEvery);
    else
      worker.changed.wait(lock, [&] { return closing || !worker.jobs.empty(); });
  }
}

void StagedCalls::State::do_job(const StagedJob& job) {
  if (job.call) return do_chunk(job);
  if (failed) return;
  if (std::string problem = job.note(); !problem.empty()) fail(problem);
}

void StagedCalls::State::do_chunk(const StagedJob& job) {
  std::uint64_t ticket = job.call->first_ticket + job.index;
  StagedSlot& place = slot(ticket);
  const auto worker = static_cast<std::uint32_t>(job.index % workers.size());
  for (Patience patience; !failed && !place.ready.reached(static_cast<std::uint32_t>(ticket));
       patience.wait())
    if (worker == 0 && options.meanwhile) options.meanwhile();
  if (!failed) {
    std::string problem;
    try {
      job.call->fill_gaps(job.index, place);
      StagedChunk chunk = job.call->chunk(job.index, place);
      chunk.worker = worker;
      problem = job.call->work(chunk);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (!problem.empty()) fail(problem);
  }
  if (--job.call->left == 0) job.call->release();
  place.done.set(static_cast<std::uint32_t>(ticket));  // also after a failure: a stream never hangs
}

void StagedCalls::State::fail(const std::string& why) {
  std::lock_guard lock(mutex);
  if (failed) return;
  failure = why;
  failed = true;
}

bool StagedCalls::State::fine(cuda::Result result, const char* what) {
  if (result == cuda::kSuccess) return true;
  fail("CUDA refuses " + std::string(what) + " of a collective: " + cuda::describe(driver, result));
  return false;
}

// ---- the class itself ----

StagedCalls::StagedCalls(const cuda::Driver& driver, cuda::Context context, const StagedOptions& options)
    : state_(std::make_unique<State>(driver, context, options)) {}

StagedCalls::~StagedCalls() = default;

Submitted StagedCalls::submit(const StagedBuffers& buffers, cuda::Stream stream, StagedWork work) {
  return state_->submit(buffers, stream, std::move(work));
}

void StagedCalls::use_workers(std::uint32_t workers) { state_->use_workers(workers); }

void StagedCalls::post(StagedNote note) { state_->give({nullptr, 0, std::move(note)}); }

std::string StagedCalls::failure() const {
  std::lock_guard lock(state_->mutex);
  return state_->failure;
}

void StagedCalls::abort(const std::string& why) { state_->fail(why); }

}  // namespace ddl
