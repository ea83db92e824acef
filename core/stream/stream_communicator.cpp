#include "core/stream/stream_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/stream/device.hpp"

namespace ddl {
namespace {

// Variants of a call (see Call): how it is scaled, and whether the ranks only meet in it.
constexpr std::uint8_t kMeeting = 8;

StagedBuffers buffers_of(const StreamCall& call, Rank me, Rank ranks) {
  Task task{call.kind, call.root};
  auto most = static_cast<Rank>(call.kind == Kind::all_reduce || is_between_two(call.kind) ||
                                        call.kind == Kind::reduce || call.kind == Kind::broadcast
                                    ? 1
                                    : ranks);
  if (is_copy(call, me)) return {call.in, call.out, call.count * size_of(call.type)};
  return {call.in,
          call.out,
          call.count * size_of(call.type),
          static_cast<std::uint32_t>(blocks_in(task, me, ranks)),
          static_cast<std::uint32_t>(blocks_out(task, me, ranks)),
          static_cast<std::uint32_t>(most)};
}

}  // namespace

// ---- the program's side ----

StreamCommunicator::State StreamCommunicator::submit(const StreamCall& call, Became* told) {
  if (State failed = state(); failed.trouble != Trouble::none) return failed;
  if (State wrong = refuse(call); wrong.trouble != Trouble::none) return wrong;
  StagedBuffers buffers = buffers_of(call, session_.rank(), session_.size());
  if (buffers.block_bytes == 0) return {};
  if (State failed = claim(call.stream, call.name); failed.trouble != Trouble::none) return failed;
  Became untold;
  Became& became = told ? *told : untold;
  if (is_for_device(call)) return submit_on_device(call, became);
  became.where = Where::host;
  Entry& one = under_way_.take();
  one.host.call = call;
  one.host.wire = batches_->wire_of(call);
  one.host.shares.clear();
  one.host.lengths = 0;
  one.claims = 1;
  Submitted how =
      host_path_ && host_path_->serves(one.host) ? enqueue_shared(one, buffers) : enqueue(one, buffers);
  return how == Submitted::kCapturing ? capture(call, buffers) : answer(how, call);
}

StreamCommunicator::State StreamCommunicator::claim(cuda::Stream stream, const char* name) {
  if (stream_owners::claim(context_, stream, owner_)) return {};
  return fail(Trouble::bad_usage,
              Error::sentence(fmt::format("{} is on a stream that another rank of this process uses", name),
                              "on it each would wait for the other", "give every rank a stream of its own"));
}

// With its buffers and its claims. What is not begun has none left.
Submitted StreamCommunicator::enqueue(Entry& one, const StagedBuffers& buffers) {
  one.left = buffers.block_bytes;
  Submitted how = staged_->submit(buffers, one.host.call.stream, [this, &one](const StagedChunk& chunk) {
    std::string problem = work(one.host, chunk, host_[chunk.worker]);
    if ((one.left -= chunk.bytes) == 0) end(one);
    return problem;
  });
  if (how == Submitted::kCapturing || how == Submitted::kUnusable) end(one);
  return how;
}

Submitted StreamCommunicator::enqueue_shared(Entry& one, StagedBuffers buffers) {
  one.left = staged_->workers() * buffers.block_bytes;
  const StreamCall& call = one.host.call;
  buffers.name = call.name;
  auto share_of = [this, &one](const StagedChunk& chunk) {
    std::string problem =
        guarded(one.host.call, [&] { return host_path_->work(one.host.call, chunk), std::string(); });
    if ((one.left -= chunk.bytes) == 0) end(one);
    return problem;
  };
  Submitted how = staged_->submit_shared(
      buffers, call.stream, [this, call] { return meet(call); }, std::move(share_of));
  if (how == Submitted::kCapturing || how == Submitted::kUnusable) end(one);
  return how;
}

void StreamCommunicator::end(Entry& one) {
  owner_.under_way -= one.claims;
  one.release();
}

// With all ranks in an engine's communicator of its own: nobody knows when graphs are launched, before or
// after which other calls.
StreamCommunicator::State StreamCommunicator::capture(const StreamCall& call, const StagedBuffers& buffers) {
  if (!captured_)
    return {Trouble::bad_usage,
            Error::sentence(fmt::format("{} is on a stream that is being captured into a graph", call.name),
                            why_no_graphs_, "capture no collectives of this communicator")};
  const HostCall what{call, batches_->wire_of(call)};
  auto work_on = [this, what](const StagedChunk& chunk) { return work(what, chunk, graph_host_); };
  if (captured_->capture(buffers, call.stream, work_on) == Submitted::kEnqueued) return {};
  return {Trouble::cuda, fmt::format("{}: {}", call.name, captured_->failure())};
}

StreamCommunicator::State StreamCommunicator::answer(Submitted how, const StreamCall& call) {
  if (how == Submitted::kEnqueued) return {};
  if (how == Submitted::kUnusable)
    return {Trouble::bad_usage,
            Error::sentence(fmt::format("{} is on a stream that takes nothing", call.name),
                            "its capture went wrong, or another stream that waits for it is captured", "")};
  if (State failed = state(); failed.trouble != Trouble::none) return failed;
  std::string why = staged_->failure();
  if (why.empty() && device_) why = device_->failure();
  return fail(Trouble::cuda, fmt::format("{}: {}", call.name, why));
}

StreamCommunicator::State StreamCommunicator::refuse(const StreamCall& call) const {
  if (call.root < 0 || call.root >= session_.size())
    return {Trouble::bad_argument,
            Error::sentence(fmt::format("{} names rank {}", call.name, call.root),
                            fmt::format("the ranks are 0 to {}", session_.size() - 1), "")};
  if (call.count > 0 && is_between_two(call.kind) && call.root == session_.rank() &&
      !is_copy(call, session_.rank()))
    return {Trouble::bad_usage,
            Error::sentence(fmt::format("{} is between a rank and itself", call.name),
                            "nothing would meet it", "put the send and an equal receive into one group")};
  Task task{call.kind, call.root};
  bool reads = blocks_in(task, session_.rank(), session_.size()) > 0;
  bool writes = blocks_out(task, session_.rank(), session_.size()) > 0;
  if (call.count > 0 && ((reads && !call.in) || (writes && !call.out)))
    return {Trouble::bad_argument, fmt::format("{} has a null pointer for a buffer", call.name)};
  return {};
}

StreamCommunicator::State StreamCommunicator::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void StreamCommunicator::abort() { stop({Trouble::peer, "the communicator was aborted"}); }

StreamCommunicator::State StreamCommunicator::fail(Trouble trouble, const std::string& why) {
  if (stop({trouble, why}))
    log_error(fmt::format(
        "{}: {}", who_.empty() ? fmt::format("rank {} of {}", session_.rank(), session_.size()) : who_, why));
  return state();
}

// True for the first cause, which is the one that counts.
bool StreamCommunicator::stop(const State& why) {
  {
    std::lock_guard lock(mutex_);
    if (state_.trouble != Trouble::none) return false;
    state_ = why;
  }
  owner_.under_way = 0;
  staged_->abort(why.text);
  session_.engine().fail(why.text);
  watch_.vanish();
  return true;
}

// ---- the worker's side ----

HostWork StreamCommunicator::work_in(Communicator* among) {
  return {session_.rank(), session_.size(),
          [this, among](const Call& call, const WireFormat& wire) { return run(*among, call, wire); }};
}

std::string StreamCommunicator::work(const HostCall& what, const StagedChunk& chunk, HostWork& host) {
  return guarded(what.call, [&] { return host(what, chunk); });
}

std::string StreamCommunicator::guarded(const StreamCall& call, const std::function<std::string()>& body) {
  std::string problem;
  try {
    problem = body();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (problem.empty()) return {};
  return fail(Trouble::peer, fmt::format("{} failed: {}", call.name, problem)).text;
}

// ---- calls that the device does ----

// The stream's part is enqueued at once; it waits until the worker has agreed with the other ranks on the
// call, which it begins with before.
StreamCommunicator::State StreamCommunicator::submit_on_device(const StreamCall& call, Became& became) {
  bool begins = false;
  auto announce = [this, &call, &begins] {
    begins = true;
    Entry* one = &under_way_.take();
    one->host.call = call;
    staged_->post([this, one] {
      std::string problem = agree(one->host.call);
      one->release();
      return problem;
    });
  };
  Submitted how = device_->submit(call, std::ref(announce));  // which takes no memory
  if (!begins) --owner_.under_way;
  became.where = how == Submitted::kCapturing ? Where::host : Where::device;
  if (how == Submitted::kCapturing) return capture(call, buffers_of(call, session_.rank(), session_.size()));
  State state = answer(how, call);
  if (how == Submitted::kFailed) staged_->post([] { return std::string(); });  // the worker looks after it
  return state;
}

// One element travels for all: what counts is that the ranks meet in the same call.
std::string StreamCommunicator::meet(const StreamCall& call) {
  const std::array<std::byte, 8> in{};
  std::array<std::byte, 8> out{};
  Call one{in.data(), out.data(), 1, call.type, call.op, call.name, now(), call.kind, 0, call.count};
  one.variant = kMeeting + static_cast<std::uint8_t>(call.scale);
  return guarded(call, [&] { return run(*of_worker_[0], one, {}); });
}

std::string StreamCommunicator::agree(const StreamCall& call) {
  std::string problem = meet(call);
  if (problem.empty()) device_->agree();
  return problem;
}

// By the worker, as long as this returns true.
bool StreamCommunicator::look_after_device() {
  if (!device_) return false;
  owner_.under_way -= device_->newly_passed();
  const char* name = device_->under_way();
  if (!name) return false;
  if (std::string gone = watch_.overdue(); !gone.empty())
    fail(Trouble::peer, fmt::format("{} failed: {}", name, gone));
  if (state().trouble != Trouble::none) device_->let_go();
  return true;
}

// What travels as it is has the plan that the engine chooses.
std::string StreamCommunicator::run(Communicator& among, const Call& call, const WireFormat& wire) {
  PreparedPlan* plan = wire.is_exact() ? nullptr : &among.plans().plan_for(call.task(), call.bytes(), wire);
  watch_.begin();
  session_.engine().run(among, call, plan);
  return session_.engine().failure();
}

}  // namespace ddl
