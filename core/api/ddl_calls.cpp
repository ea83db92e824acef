// ddl.h: calls and requests. Checks what the program gives, and translates.
#include <utility>

#include "core/api/c_types.hpp"
#include "core/api/ddl_handles.hpp"
#include "core/base/clock.hpp"
#include "core/device/device_memory.hpp"

using namespace ddl::api;
using ddl::Rank;

namespace {

ddl::Call checked(const ddl_call& call, const ddl_group& group) {
  using ddl::Kind;
  if (static_cast<unsigned>(call.kind) >= ddl::kKinds)
    throw BadArgument(fmt::format("there is no kind of collective {}", static_cast<int>(call.kind)));
  const Kind kind = ddl::from_c(call.kind);
  if (static_cast<unsigned>(call.type) >= ddl::kDTypes)
    throw BadArgument(fmt::format("there is no type {}", static_cast<int>(call.type)), "see ddl_type");
  const ddl::DType type = ddl::from_c(call.type);
  if (ddl::computes(kind)) {
    if (static_cast<unsigned>(call.op) >= ddl::kOps)
      throw BadArgument(fmt::format("there is no operation {}", static_cast<int>(call.op)), "see ddl_op");
    if (!ddl::is_reducible(type, ddl::from_c(call.op)))
      throw BadArgument(
          fmt::format("there is no {} of {}", ddl::name_of(ddl::from_c(call.op)), ddl::name_of(type)),
          "logical and bitwise operations take integers");
  }
  const auto ranks = static_cast<Rank>(group.members.size());
  const bool two = ddl::is_between_two(kind);
  const Rank root = ddl::has_root(kind) || two ? call.root : 0;
  if (root < 0 || root >= ranks)
    throw BadArgument(fmt::format("rank {} is not in the group", root),
                      fmt::format("it has {} ranks", ranks));
  if (two && root == group.me) throw BadArgument("a rank cannot send to itself, nor receive from itself");
  const ddl::Task task{kind, root};
  const Rank in = ddl::blocks_in(task, group.me, ranks), out = ddl::blocks_out(task, group.me, ranks);
  constexpr std::uint64_t kMost = std::uint64_t{1}
                                  << 46;  // elements; their bytes over all ranks can be counted
  if (call.count > kMost / static_cast<std::uint64_t>(ranks))
    throw BadArgument(fmt::format("a count of {} is more than any memory holds", call.count));
  const bool is_needed = call.count > 0;
  check(!is_needed || in == 0 || call.in, "the input buffer is NULL", "this rank brings elements");
  check(!is_needed || out == 0 || call.out, "the output buffer is NULL", "this rank gets elements");
  ddl::Call made{call.in,    call.out, call.count, type, ddl::from_c(call.op), ddl::name_of(kind).data(),
                 ddl::now(), kind,     root};
  if (!ddl::computes(kind)) made.op = ddl::Op::sum;
  if (kind != Kind::all_reduce && is_needed && ddl::is_device_memory(call.in, call.out))
    throw BadArgument(fmt::format("the {} has a buffer in device memory", ddl::name_of(kind)),
                      "only those of an all-reduce may be", "copy it to the host");
  return made;
}

// Null: none is named.
const std::shared_ptr<ddl::SparseGradient>* gradient_of(const ddl_call& call, const ddl_group& group) {
  const ddl_gradient* gradient = call.gradient;
  if (!gradient) return nullptr;
  check(gradient->group == group.serial, "the gradient is one of another group, or of one that was freed",
        "ddl_gradient_create names its group");
  check(call.kind == DDL_ALL_REDUCE && call.op == DDL_SUM, "only a sum of all ranks can be sent in part",
        "DDL_ALL_REDUCE with DDL_SUM");
  if (call.count != gradient->count || call.type != gradient->type)
    throw BadArgument(fmt::format("the gradient has {} elements of another type, or the call has {}",
                                  gradient->count, call.count),
                      "count and type are those of ddl_gradient_options");
  return &gradient->sparse;
}

ddl::Outcome start(const ddl_call& call, const ddl::Call& made, ddl_group& group,
                   ddl::SessionCall& under_way) {
  const auto* gradient = gradient_of(call, group);
  return gradient ? group.communicator->start(made, *gradient, under_way)
                  : group.communicator->start(made, under_way);
}

ddl_status run(const ddl_call& call, ddl_group* given) noexcept {
  return call_on(given, [&](ddl_group& group) {
    const ddl::Call made = checked(call, group);
    if (made.count == 0 && !call.gradient) return;
    if (!ddl::is_between_two(made.kind) && !call.gradient)
      return check_outcome(group, group.communicator->run(made));
    ddl::SessionCall under_way;
    ddl::Outcome outcome = start(call, made, group, under_way);
    if (outcome.what == ddl::Outcome::What::under_way) outcome = group.communicator->wait(under_way);
    check_outcome(group, outcome);
  });
}

ddl_call call_of(ddl_kind kind, const void* in, void* out, uint64_t count, ddl_type type, ddl_op op = DDL_SUM,
                 int32_t root = 0) {
  return {.size = sizeof(ddl_call),
          .kind = kind,
          .in = in,
          .out = out,
          .count = count,
          .type = type,
          .op = op,
          .root = root,
          .gradient = nullptr};
}

ddl_request& take_request(ddl_group& group) {
  World& world = *group.world;
  std::lock_guard lock(world.mutex);
  if (world.idle.empty()) {
    world.requests.push_back(std::make_unique<ddl_request>());
    world.idle.reserve(world.requests.size());
    world.idle.push_back(world.requests.back().get());
  }
  ddl_request& request = *world.idle.back();
  world.idle.pop_back();
  request.group = &group;
  request.is_under_way = true;
  return request;
}

// A request whose operation may still be known to an engine that has failed is not used again.
void give_back(ddl_request& request) {
  World& world = *request.group->world;
  std::lock_guard lock(world.mutex);
  request.is_under_way = false;
  if (request.call.done()) world.idle.push_back(&request);
}

void end(ddl_request** request, const ddl::Outcome& outcome) {
  ddl_group& group = *(*request)->group;
  give_back(**request);
  *request = nullptr;
  check_outcome(group, outcome);
}

// Runs `body`, which ends the request, unless there is none or the pointer to it is NULL.
template <class Body>
ddl_status finish(ddl_request** request, Body body) noexcept {
  if (!request)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the pointer to the request is NULL", "it becomes NULL"); });
  if (!*request) return DDL_SUCCESS;
  ddl_group* group = (*request)->group;
  ddl_status status = call_on(group, [&](ddl_group&) { body(); });
  if (status == DDL_ERROR_STATE) *request = nullptr;
  return status;
}

}  // namespace

extern "C" {

ddl_status ddl_run(const ddl_call* call, ddl_group* group) {
  ddl_call known;
  ddl_status status = guarded(DDL_ERROR_ARGUMENT, [&] {
    check(call, "the call is NULL", "it says what to do");
    known = known_fields(call, DDL_CALL, "ddl_call");
  });
  return status == DDL_SUCCESS ? run(known, group) : status;
}

ddl_status ddl_all_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                          ddl_group* group) {
  return run(call_of(DDL_ALL_REDUCE, in, out, count, type, op), group);
}
ddl_status ddl_broadcast(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                         ddl_group* group) {
  return run(call_of(DDL_BROADCAST, in, out, count, type, DDL_SUM, root), group);
}
ddl_status ddl_reduce(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op, int32_t root,
                      ddl_group* group) {
  return run(call_of(DDL_REDUCE, in, out, count, type, op, root), group);
}
ddl_status ddl_all_gather(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group) {
  return run(call_of(DDL_ALL_GATHER, in, out, count, type), group);
}
ddl_status ddl_reduce_scatter(const void* in, void* out, uint64_t count, ddl_type type, ddl_op op,
                              ddl_group* group) {
  return run(call_of(DDL_REDUCE_SCATTER, in, out, count, type, op), group);
}
ddl_status ddl_gather(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                      ddl_group* group) {
  return run(call_of(DDL_GATHER, in, out, count, type, DDL_SUM, root), group);
}
ddl_status ddl_scatter(const void* in, void* out, uint64_t count, ddl_type type, int32_t root,
                       ddl_group* group) {
  return run(call_of(DDL_SCATTER, in, out, count, type, DDL_SUM, root), group);
}
ddl_status ddl_all_to_all(const void* in, void* out, uint64_t count, ddl_type type, ddl_group* group) {
  return run(call_of(DDL_ALL_TO_ALL, in, out, count, type), group);
}
ddl_status ddl_send(const void* in, uint64_t count, ddl_type type, int32_t to, ddl_group* group) {
  return run(call_of(DDL_SEND, in, nullptr, count, type, DDL_SUM, to), group);
}
ddl_status ddl_receive(void* out, uint64_t count, ddl_type type, int32_t from, ddl_group* group) {
  return run(call_of(DDL_RECEIVE, nullptr, out, count, type, DDL_SUM, from), group);
}

ddl_status ddl_barrier(ddl_group* group) {
  std::uint8_t nothing = 0;
  return ddl_all_reduce(&nothing, &nothing, 1, DDL_UINT8, DDL_MAX, group);
}

ddl_status ddl_start(const ddl_call* call, ddl_group* given, ddl_request** request) {
  if (request) *request = nullptr;
  return call_on(given, [&](ddl_group& group) {
    check(request, "the pointer to the request is NULL", "ddl_wait needs the request");
    check(call, "the call is NULL", "it says what to do");
    const ddl_call known = known_fields(call, DDL_CALL, "ddl_call");
    const ddl::Call made = checked(known, group);
    if (made.count == 0 && !known.gradient) return;
    ddl_request& started = take_request(group);
    try {
      ddl::Outcome outcome = start(known, made, group, started.call);
      if (outcome.what == ddl::Outcome::What::under_way) {
        *request = &started;
        return;
      }
      give_back(started);
      check_outcome(group, outcome);
    } catch (...) {
      if (started.is_under_way) give_back(started);
      throw;
    }
  });
}

ddl_status ddl_wait(ddl_request** request) {
  return finish(request, [&] { end(request, (*request)->group->communicator->wait((*request)->call)); });
}

ddl_status ddl_test(ddl_request** request, int* done) {
  if (!done)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the pointer to `done` is NULL", "it becomes 0 or 1"); });
  *done = 1;
  return finish(request, [&] {
    std::optional<ddl::Outcome> outcome = (*request)->group->communicator->test((*request)->call);
    *done = outcome.has_value();
    if (outcome) end(request, *outcome);
  });
}

ddl_status ddl_wait_all(size_t n, ddl_request** requests) {
  if (n > 0 && !requests)
    return guarded(DDL_ERROR_ARGUMENT,
                   [] { check(false, "the array of requests is NULL", "it has members"); });
  ddl_status first = DDL_SUCCESS;
  for (size_t i = 0; i < n; ++i)
    if (ddl_status status = ddl_wait(&requests[i]); first == DDL_SUCCESS) first = status;
  return first;
}

}  // extern "C"
