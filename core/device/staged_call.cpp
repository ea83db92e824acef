#include "core/device/staged_call.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/partition.hpp"
#include "core/device/flag.hpp"
#include "core/device/flag_steps.hpp"
#include "core/device/pinned_pool.hpp"
#include "core/device/staged_bench.hpp"
#include "core/device/staged_jobs.hpp"
#include "core/device/staged_workers.hpp"

namespace ddl {
namespace {

// A call is cut for overlap only where the parts stay worth a copy of their own.
constexpr Bytes kLeastPiece = Bytes{256} << 10;

// Of fewer bytes a copy to the device is made where kernels run, for which a GPU has to change between the
// processes that share it: 140 us instead of 9 on an H200. As two rows a copy engine does it; the driver
// makes one of rows that lie side by side.
constexpr Bytes kSmallCopy = 2048;

// On shared memory. Few and large chunks, because the GPU changes between the processes that copy: on an H200
// two that copy 256 MiB to the host and back take 13.1 ms in chunks of 2 MiB, 11.2 in those of 8 MiB.
constexpr std::uint32_t kMostSharedSlots = 4;

// For a second copy of the output of a chunk whose pieces are small. Not where other ranks write to it too.
bool has_room_aside(const StagedChunk& chunk, const StagedBench& bench) {
  return chunk.outs.empty() && chunk.bytes < kSmallCopy && chunk.out.size() <= bench.area_bytes / 2;
}

// The same on all ranks: from what they have in common alone.
Bytes piece_bytes(Bytes block_bytes, std::uint32_t blocks, const StagedBench& bench) {
  Bytes overlapped = round_up(divide_up(block_bytes, bench.slots.size()), kPieceUnit);
  Bytes most = bench.area_bytes / blocks / kPieceUnit * kPieceUnit;  // not 0: see least_area()
  return std::min(most, std::max(overlapped, kLeastPiece));
}

// What a host function waits for.
struct AwaitedFlag {
  Flag flag;
  std::uint32_t value;
};

void wait_for_flag(void* data) {
  std::unique_ptr<AwaitedFlag> awaited(static_cast<AwaitedFlag*>(data));
  for (Patience patience; !awaited->flag.reached(awaited->value);) patience.wait();
}

}  // namespace

struct StagedCalls::State {
  State(const cuda::Driver& driver, cuda::Context context, const StagedOptions& options);
  ~State();
  bool finish();

  Submitted submit(const StagedBuffers& buffers, cuda::Stream stream, StagedNote meet, StagedWork work);
  Submitted may_enqueue(cuda::Stream stream);
  bool let_wait(cuda::Stream later, cuda::Stream earlier);
  bool enqueue(StagedCallPool::Entry& call, cuda::Stream stream);
  bool follow_last_call(StagedBench& bench, cuda::Stream stream);
  bool bring_in(StagedCallPool::Entry& call, std::uint64_t index, cuda::Stream stream);
  cuda::Result bring_back(cuda::DevicePointer to, const StagedSlot& place, const StagedChunk& chunk, Bytes at,
                          Bytes bytes, const StagedBench& bench, cuda::Stream stream);
  bool take_out(const StagedCall& call, std::uint64_t index, cuda::Stream stream);
  cuda::Result raise(cuda::Stream stream, const Flag& flag, std::uint32_t value);
  cuda::Result wait(cuda::Stream stream, const std::vector<Flag>& flags, std::uint32_t value);

  void pin();
  cuda::Result make_events(StagedBench& bench);
  void unpin();
  void forget_events();
  void use_workers(std::uint32_t count);
  void share(const SharedStaging& with);
  bool streams_have_passed();
  void do_job(const StagedJob& job, std::uint32_t worker);
  void do_chunk(const StagedJob& job, std::uint32_t worker);
  void fail(const std::string& why);
  bool fine(cuda::Result result, const char* what);
  Bytes least_area() const { return kPieceUnit * std::max(1u, options.most_blocks); }
  bool look_after_shared();
  std::string await_inputs(const StagedCall& call, const StagedSlot& place, std::uint32_t ticket,
                           bool is_first_worker);

  const cuda::Driver& driver;
  const cuda::Context context;
  StagedOptions options;
  pinned_pool::Block pinned;
  StagedBench own, shared;  // the latter has no slots where no memory is shared
  cuda::Event between_streams = nullptr;
  bool left_behind = false;  // the pinned memory, by finish()

  std::mutex submitting;  // held while a call is enqueued, so that tickets, streams and jobs are in one order
  FlagSteps steps;
  StagedCallPool calls;
  std::atomic<const char*> name_of_shared{""};  // of the latest call

  std::mutex mutex;  // of the text
  std::string failure;
  std::atomic<bool> failed{false};
  StagedWorkers workers;  // as many as there are before the first call
};

StagedCalls::State::State(const cuda::Driver& cuda_driver, cuda::Context cuda_context,
                          const StagedOptions& chosen)
    : driver(cuda_driver),
      context(cuda_context),
      options(chosen),
      workers({[this](const StagedJob& job, std::uint32_t worker) { do_job(job, worker); },
               [this](std::uint32_t worker) {
                 const bool more = worker == 0 && options.meanwhile && options.meanwhile();
                 return look_after_shared() || more;
               },
               chosen.patience, failed}) {
  pin();
  workers.start(1);
}

void StagedCalls::State::use_workers(std::uint32_t count) {
  const auto chunks = std::max<std::uint32_t>(static_cast<std::uint32_t>(own.slots.size()), 2 * count);
  if (count < 2 || area_of(pinned.bytes, chunks) < least_area()) return;
  cuda::CurrentContext current(driver, context);
  forget_events();
  own = own_bench(pinned, chunks, options.first_ticket);
  if (cuda::Result result = make_events(own); result != cuda::kSuccess)
    return fail("CUDA refuses an event: " + cuda::describe(driver, result));
  workers.start(count);
}

void StagedCalls::State::share(const SharedStaging& with) {
  shared = shared_bench(with, std::min(kMostSharedSlots, 2 * workers.size()));
  cuda::CurrentContext current(driver, context);
  if (cuda::Result result = make_events(shared); result != cuda::kSuccess)
    fail("CUDA refuses an event: " + cuda::describe(driver, result));
}

StagedCalls::State::~State() { finish(); }

bool StagedCalls::State::finish() {
  workers.stop();
  if (!pinned.host || left_behind) return !left_behind;
  left_behind = !streams_have_passed();
  if (!left_behind) return unpin(), true;
  log_warning(Error::sentence("a stream does not come to an end",
                              "a collective on it was aborted, and " + std::to_string(pinned.bytes >> 20) +
                                  " MiB of pinned memory that it may still use are left behind",
                              ""));
  return false;
}

void StagedCalls::State::pin() {
  cuda::CurrentContext current(driver, context);
  const std::uint32_t chunks = std::max(1u, options.chunks);
  const Bytes bytes = bytes_of(chunks, std::max(round_up(options.chunk_bytes, kPieceUnit), least_area()));
  cuda::Result result = current.result();
  if (result == cuda::kSuccess) result = pinned_pool::take(driver, context, bytes, pinned);
  if (result == cuda::kSuccess) own = own_bench(pinned, chunks, options.first_ticket);
  if (result == cuda::kSuccess) result = make_events(own);
  if (result == cuda::kSuccess) result = driver.event_create(&between_streams, cuda::kEventNoTiming);
  if (result == cuda::kSuccess) return;
  unpin();
  throw Error(
      "cannot pin " + std::to_string(bytes >> 20) + " MiB of host memory: " + cuda::describe(driver, result),
      "collectives on this device are staged there", "lower the size of chunks or raise `ulimit -l`");
}

cuda::Result StagedCalls::State::make_events(StagedBench& bench) {
  cuda::Result result = cuda::kSuccess;
  for (StagedSlot& slot : bench.slots)
    if (result == cuda::kSuccess) result = driver.event_create(&slot.passed, cuda::kEventNoTiming);
  return result;
}

void StagedCalls::State::forget_events() {
  for (StagedBench* bench : {&own, &shared})
    for (StagedSlot& slot : bench->slots)
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
  for (const StagedBench* bench : {&own, &shared})
    for (const StagedSlot& slot : bench->slots)
      for (Patience patience; driver.event_query(slot.passed) == cuda::kNotReady;) {
        if (now() > until) return false;
        patience.wait();
      }
  return true;
}

// ---- the caller's side ----

// On shared memory where there is something to do before.
Submitted StagedCalls::State::submit(const StagedBuffers& buffers, cuda::Stream stream, StagedNote meet,
                                     StagedWork work) {
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
  call.bench = meet ? &shared : &own;
  call.piece = piece_bytes(buffers.block_bytes, blocks, *call.bench);
  call.count = (buffers.block_bytes + call.piece - 1) / call.piece;
  call.workers = meet ? workers.size() : 1;
  call.left = call.count * call.workers;
  call.first_ticket = call.bench->next_ticket;
  bool well = true;
  for (cuda::Stream other : buffers.along) well = well && let_wait(stream, other);
  if (meet) workers.give({nullptr, 0, std::move(meet)});
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

bool StagedCalls::State::enqueue(StagedCallPool::Entry& call, cuda::Stream stream) {
  StagedBench& bench = *call.bench;
  const std::uint64_t depth = bench.slots.size();
  std::uint64_t in = 0, out = 0;
  bool well = follow_last_call(bench, stream);
  for (; well && in < call.count; ++in) {
    if (in >= depth) well = take_out(call, out++, stream);
    well = well && bring_in(call, in, stream);
  }
  while (well && out < call.count) well = take_out(call, out++, stream);
  bench.next_ticket += in;
  // Where it broke off, the slots are the stream's until it has come this far. The worker raises `done` for
  // what it was given, so that the stream does get here.
  std::uint64_t touched = std::min(in, depth);
  for (std::uint64_t ticket = bench.next_ticket - touched; ticket != bench.next_ticket; ++ticket)
    well &= fine(driver.event_record(bench.slot(ticket).passed, stream), "an event");
  return well;
}

// Host functions run one after the other, whatever their streams: one that waits for a later call would keep
// those that an earlier one has still to pass from running.
bool StagedCalls::State::follow_last_call(StagedBench& bench, cuda::Stream stream) {
  const StagedSlot& last = bench.slot(bench.next_ticket - 1);
  if (options.ordering != FlagOrdering::kHostFunctions || !last.used) return true;
  return fine(driver.stream_wait_event(stream, last.passed, 0), "an event");
}

// One chunk's way to the worker.
bool StagedCalls::State::bring_in(StagedCallPool::Entry& call, std::uint64_t index, cuda::Stream stream) {
  std::uint64_t ticket = call.first_ticket + index;
  StagedSlot& place = call.bench->slot(ticket);
  if (place.used && index < call.bench->slots.size() &&
      !fine(driver.stream_wait_event(stream, place.passed, 0), "an event"))
    return false;
  place.used = true;
  const StagedChunk chunk = call.chunk(index, place);
  const bool copied = call.each_input(chunk, [&](cuda::DevicePointer from, Bytes at, Bytes bytes) {
    return fine(driver.copy_to_host_async(place.in + at, from, bytes, stream), "a copy from the device");
  });
  if (!copied || !fine(raise(stream, place.ready, static_cast<std::uint32_t>(ticket)), "a flag"))
    return false;
  workers.give({&call, index});
  return true;
}

// One chunk's way back.
bool StagedCalls::State::take_out(const StagedCall& call, std::uint64_t index, cuda::Stream stream) {
  std::uint64_t ticket = call.first_ticket + index;
  const StagedSlot& place = call.bench->slot(ticket);
  if (!fine(wait(stream, place.done, static_cast<std::uint32_t>(ticket)), "a flag")) return false;
  const StagedChunk chunk = call.chunk(index, place);
  return call.each_output(chunk, [&](cuda::DevicePointer to, Bytes at, Bytes bytes) {
    return fine(bring_back(to, place, chunk, at, bytes, *call.bench, stream), "a copy to the device");
  });
}

// Where it may be made of rows the worker has left a second copy, see copy_aside.
cuda::Result StagedCalls::State::bring_back(cuda::DevicePointer to, const StagedSlot& place,
                                            const StagedChunk& chunk, Bytes at, Bytes bytes,
                                            const StagedBench& bench, cuda::Stream stream) {
  if (bytes >= kSmallCopy || bytes % 2 != 0 || !has_room_aside(chunk, bench) || !driver.copy_rows_async)
    return driver.copy_to_device_async(to, place.out + at, bytes, stream);
  cuda::CopyOfRows rows;
  rows.from = {
      .type = cuda::kMemoryTypeHost, .host = place.out + at, .pitch = bench.area_bytes / 2 + bytes / 2};
  rows.to = {.type = cuda::kMemoryTypeDevice, .device = to, .pitch = bytes / 2};
  rows.width = bytes / 2;
  rows.height = 2;
  return driver.copy_rows_async(&rows, stream);
}

cuda::Result StagedCalls::State::raise(cuda::Stream stream, const Flag& flag, std::uint32_t value) {
  if (options.ordering == FlagOrdering::kStreamMemoryOperations)
    return driver.stream_write_value(stream, flag.on_device, value, cuda::kWriteValueDefault);
  return driver.set_values(flag.on_device, value, 1, stream);
}

cuda::Result StagedCalls::State::wait(cuda::Stream stream, const std::vector<Flag>& flags,
                                      std::uint32_t value) {
  if (options.ordering == FlagOrdering::kStreamMemoryOperations) {
    for (const Flag& flag : flags) steps.await(flag, value);
    return steps.enqueue(driver, stream);
  }
  auto awaited = std::make_unique<AwaitedFlag>(AwaitedFlag{flags.front(), value});
  cuda::Result result = driver.launch_host_function(stream, wait_for_flag, awaited.get());
  if (result == cuda::kSuccess) awaited.release();  // the function owns it from now on
  return result;
}

// ---- the worker's side ----

void StagedCalls::State::do_job(const StagedJob& job, std::uint32_t worker) {
  if (job.call) return do_chunk(job, worker);
  if (failed) return;
  if (std::string problem = job.note(); !problem.empty()) fail(problem);
}

void StagedCalls::State::do_chunk(const StagedJob& job, std::uint32_t worker) {
  const auto ticket = static_cast<std::uint32_t>(job.call->first_ticket + job.index);
  StagedSlot& place = job.call->bench->slot(job.call->first_ticket + job.index);
  const std::uint32_t parts = job.call->workers;
  std::string problem = await_inputs(*job.call, place, ticket, worker == 0);
  if (problem.empty() && !failed) {
    try {
      job.call->fill_gaps(job.index, place);
      StagedChunk chunk = job.call->chunk(job.index, place);
      chunk.worker = worker;
      problem = job.call->work(chunk);
      if (has_room_aside(chunk, *job.call->bench))
        std::copy(chunk.out.begin(), chunk.out.end(), place.out + job.call->bench->area_bytes / 2);
    } catch (const std::exception& error) {
      problem = error.what();
    }
  }
  if (!problem.empty()) fail(problem);
  const bool is_shared = job.call->bench == &shared;
  if (is_shared) name_of_shared = job.call->buffers.name;
  if (--job.call->left == 0) job.call->release();
  if (!failed) {
    if (++place.parts_done < parts) return;
    place.parts_done = 0;
  }
  // A stream never hangs: after a failure the own one goes on without the others.
  for (const Flag& flag : failed ? place.done : place.raised) flag.raise(ticket);
  if (is_shared) Flag{&place.worked_on}.raise(ticket);
}

// A stream waits for the shares of other ranks too, when the own ones are done. False when it waits for none.
bool StagedCalls::State::look_after_shared() {
  auto any_missing = [this](auto missing) {
    bool any = false;
    for (StagedSlot& slot : shared.slots)
      for (const Flag& flag : slot.done)
        if (const std::uint32_t ticket = slot.worked_on_until(); !flag.reached(ticket))
          any = true, missing(flag, ticket);
    return any;
  };
  if (!any_missing([](const Flag&, std::uint32_t) {})) return false;
  if (std::string gone = options.overdue ? options.overdue(name_of_shared) : ""; !gone.empty()) fail(gone);
  if (!failed) return true;
  any_missing([](const Flag& flag, std::uint32_t ticket) { flag.raise(ticket); });
  return false;
}

std::string StagedCalls::State::await_inputs(const StagedCall& call, const StagedSlot& place,
                                             std::uint32_t ticket, bool is_first_worker) {
  for (const Flag& flag : place.awaited)
    for (Patience patience; !failed && !flag.reached(ticket); patience.wait()) {
      if (is_first_worker && options.meanwhile) options.meanwhile();
      if (place.awaited.size() == 1 || !options.overdue) continue;
      if (std::string gone = options.overdue(call.buffers.name); !gone.empty()) return gone;
    }
  return {};
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
  return state_->submit(buffers, stream, {}, std::move(work));
}

Submitted StagedCalls::submit_shared(const StagedBuffers& buffers, cuda::Stream stream, StagedNote meet,
                                     StagedWork work) {
  return state_->submit(buffers, stream, std::move(meet), std::move(work));
}

void StagedCalls::use_workers(std::uint32_t workers) { state_->use_workers(workers); }

std::uint32_t StagedCalls::workers() const { return state_->workers.size(); }

void StagedCalls::share(const SharedStaging& with) { state_->share(with); }

void StagedCalls::post(StagedNote note) { state_->workers.give({nullptr, 0, std::move(note)}); }

std::string StagedCalls::failure() const {
  std::lock_guard lock(state_->mutex);
  return state_->failure;
}

bool StagedCalls::finish() { return state_->finish(); }

void StagedCalls::abort(const std::string& why) { state_->fail(why); }

}  // namespace ddl
