// The ABI boundary between C++ and the fronts for communicators of our own: every exception ends here.
#include "core/api/stream_api.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "core/api/c_types.hpp"
#include "core/api/guard.hpp"
#include "core/base/error.hpp"
#include "core/plan/hierarchy_plan.hpp"
#include "core/stream/communicator_setup.hpp"
#include "core/stream/device.hpp"
#include "core/stream/unique_id.hpp"

struct ddl_setup {
  ddl::CommunicatorSetup setup;
};

struct ddl_lease {
  ddl::RendezvousClient rendezvous;
};

struct ddl_stream_comm {
  std::unique_ptr<ddl::StreamCommunicator> communicator;
};

namespace {

using ddl::StreamCall;
using ddl::StreamCommunicator;

using ddl::guarded_in_silence;

template <class Body>
ddl_stream_result guarded(ddl_stream_result otherwise, ddl_problem* problem, Body body) noexcept {
  return ddl::guarded(problem, otherwise, body);
}

// Garbage in the environment has been said by who reads it first; here it costs its effect.
ddl::Env environment() {
  try {
    return ddl::load_env();
  } catch (const ddl::UsageError&) {
    return ddl::parse_env({});
  }
}

int usable() {
  return guarded_in_silence(0, [] { return int{environment().enable && ddl::gpu::driver()}; });
}

void* current_context() {
  return guarded_in_silence<void*>(nullptr,
                                   [] { return ddl::gpu::driver() ? ddl::gpu::current_context() : nullptr; });
}

void* context_of_device(int32_t ordinal) {
  return guarded_in_silence<void*>(
      nullptr, [&] { return ddl::gpu::driver() ? ddl::gpu::context_of_device(ordinal) : nullptr; });
}

int use_context(void* context) {
  return guarded_in_silence(0, [&] {
    return int{ddl::gpu::driver()->context_set(static_cast<ddl::cuda::Context>(context)) ==
               ddl::cuda::kSuccess};
  });
}

int32_t device_of(void* context) {
  return guarded_in_silence(-1,
                            [&] { return ddl::gpu::device_of(static_cast<ddl::cuda::Context>(context)); });
}

ddl_stream_result of_driver(ddl::cuda::Result result, ddl_problem* problem) {
  if (result == ddl::cuda::kSuccess) return DDL_STREAM_OK;
  ddl::write(*problem, ddl::cuda::describe(*ddl::gpu::driver(), result));
  return DDL_STREAM_CUDA;
}

ddl_stream_result allocate(void** address, uint64_t bytes, ddl_problem* problem) {
  return guarded(DDL_STREAM_INTERNAL, problem, [&] {
    ddl::cuda::DevicePointer pointer = 0;
    ddl_stream_result result = of_driver(ddl::gpu::driver()->allocate(&pointer, bytes), problem);
    *address = reinterpret_cast<void*>(pointer);
    return result;
  });
}

ddl_stream_result release(void* address, ddl_problem* problem) {
  return guarded(DDL_STREAM_INTERNAL, problem, [&] {
    return of_driver(ddl::gpu::driver()->free(reinterpret_cast<ddl::cuda::DevicePointer>(address)), problem);
  });
}

std::span<const std::byte, ddl::RendezvousId::kBytes> bytes_of(const void* id) {
  return std::span<const std::byte, ddl::RendezvousId::kBytes>(static_cast<const std::byte*>(id),
                                                               ddl::RendezvousId::kBytes);
}

ddl::RendezvousId id_from(const void* id) {
  if (auto ours = ddl::RendezvousId::from(bytes_of(id))) return *ours;
  throw ddl::Error("a communicator has no rendezvous of ours");
}

ddl_stream_result make_id(void* id, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    ddl::RendezvousId made = ddl::make_unique_id(environment());
    std::memcpy(id, made.bytes().data(), ddl::RendezvousId::kBytes);
    return DDL_STREAM_OK;
  });
}

int is_id(const void* id) { return ddl::RendezvousId::is_ours(bytes_of(id)); }

ddl_hierarchy hierarchy_of(const ddl::CommunicatorSetup& setup) {
  ddl_hierarchy hierarchy{};
  const ddl::SetupOutcome& outcome = setup.outcome();
  if (!outcome.grid) return hierarchy;
  static_assert(DDL_HIERARCHY_DIMENSIONS == ddl::kMostHierarchyDimensions);
  hierarchy.segment_bytes = outcome.segment;
  for (ddl::HierarchyRoute route : outcome.routes)
    hierarchy.route[hierarchy.routes++] = static_cast<int32_t>(route);
  for (const ddl::HierarchyDimension& d : ddl::hierarchy_layout(*outcome.grid, setup.rank()))
    hierarchy.dimension[hierarchy.dimensions++] = {d.extent, d.first, d.place};
  return hierarchy;
}

ddl_stream_result set_up(const ddl_setup_request* request, ddl_setup** setup, ddl_setup_outcome* outcome,
                         ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    auto host = request->host < 0 ? std::nullopt : std::optional<ddl::HostIndex>(request->host);
    *setup = new ddl_setup{ddl::CommunicatorSetup(
        id_from(request->id), request->rank, request->size,
        {request->has_original != 0, request->can_split != 0, request->by_sockets != 0}, host,
        static_cast<ddl::cuda::Context>(request->context), environment())};
    const ddl::CommunicatorSetup& held = (*setup)->setup;
    *outcome = {held.is_ours(), held.host().value_or(-1), held.outcome().splits_may_have_plans(),
                hierarchy_of(held)};
    return DDL_STREAM_OK;
  });
}

void part_of(const void* id, uint64_t number, int32_t color, void* part) {
  guarded_in_silence(0, [&] {
    const ddl::RendezvousId made = id_from(id).part(number, color);
    std::memcpy(part, made.bytes().data(), ddl::RendezvousId::kBytes);
    return 0;
  });
}

// Nobody else is in that subgroup.
ddl_stream_result lease(const void* id, ddl_lease** made, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    *made = new ddl_lease{{id_from(id).part(0, 0), 0, 1, environment().timeout_s}};
    return DDL_STREAM_OK;
  });
}

void end_lease(ddl_lease* lease) {
  guarded_in_silence(0, [&] { return delete lease, 0; });
}

ddl_stream_result share(ddl_setup* setup, void* original_id, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    std::vector<std::byte> id =
        setup->setup.share(original_id ? bytes_of(original_id) : std::span<const std::byte>());
    if (id.size() != ddl::RendezvousId::kBytes) throw ddl::Error("rank 0 has no unique id of NCCL");
    std::copy(id.begin(), id.end(), static_cast<std::byte*>(original_id));
    return DDL_STREAM_OK;
  });
}

ddl_stream_result start_all_gather(ddl_setup* setup, const void* bytes, uint64_t size, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    setup->setup.start_all_gather({static_cast<const std::byte*>(bytes), size});
    return DDL_STREAM_OK;
  });
}

ddl_stream_result test_all_gather(ddl_setup* setup, int32_t wait, void* all, uint64_t size_of_each,
                                  int32_t* done, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    std::optional<ddl::RendezvousClient::Blobs> blobs = setup->setup.test_all_gather(wait != 0);
    *done = blobs.has_value();
    if (!blobs) return DDL_STREAM_OK;
    auto* to = static_cast<std::byte*>(all);
    for (const std::vector<std::byte>& blob : *blobs) {
      if (blob.size() != size_of_each) throw ddl::Error("a rank says something else than the others");
      to = std::copy(blob.begin(), blob.end(), to);
    }
    return DDL_STREAM_OK;
  });
}

void leave(ddl_setup* setup) {
  guarded_in_silence(0, [&] { return delete setup, 0; });
}

ddl_stream_result open_rails(const void* id, int32_t place, int32_t extent, void* context, const char* who,
                             ddl_stream_comm** comm, ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    *comm = new ddl_stream_comm{ddl::open_apart(
        id_from(id), place, extent, static_cast<ddl::cuda::Context>(context), environment(), who)};
    return DDL_STREAM_OK;
  });
}

ddl_stream_result open(ddl_setup* ends, ddl_stream_comm** comm, ddl_problem* problem) {
  std::unique_ptr<ddl_setup> setup(ends);
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    *comm = new ddl_stream_comm{setup->setup.open()};
    return DDL_STREAM_OK;
  });
}

ddl_stream_result split(ddl_stream_comm* parent, int32_t color, int32_t key, ddl_stream_comm** created,
                        ddl_problem* problem) {
  return guarded(DDL_STREAM_SYSTEM, problem, [&] {
    auto child = parent->communicator->split(color < 0 ? std::nullopt : std::optional<int>(color), key);
    *created = child ? new ddl_stream_comm{std::move(child)} : nullptr;
    return DDL_STREAM_OK;
  });
}

void place(ddl_stream_comm* comm, int32_t* rank, int32_t* size) {
  *rank = comm->communicator->rank();
  *size = comm->communicator->size();
}

ddl_stream_result answer(const StreamCommunicator::State& state, ddl_problem* problem) {
  ddl::write(*problem, state.text);
  switch (state.trouble) {
    case StreamCommunicator::Trouble::none:
      return DDL_STREAM_OK;
    case StreamCommunicator::Trouble::cuda:
      return DDL_STREAM_CUDA;
    case StreamCommunicator::Trouble::bad_argument:
      return DDL_STREAM_BAD_ARGUMENT;
    case StreamCommunicator::Trouble::bad_usage:
      return DDL_STREAM_BAD_USAGE;
    case StreamCommunicator::Trouble::peer:
      return DDL_STREAM_PEER;
  }
  return DDL_STREAM_INTERNAL;
}

StreamCall stream_call_of(const ddl_stream_call& c) {
  StreamCall call;
  call.kind = ddl::from_c(c.kind);
  call.in = reinterpret_cast<ddl::cuda::DevicePointer>(c.in);
  call.out = reinterpret_cast<ddl::cuda::DevicePointer>(c.out);
  call.count = c.count;
  call.type = ddl::from_c(c.type);
  call.op = ddl::from_c(c.op);
  call.scale = static_cast<StreamCall::Scale>(c.scale);
  std::memcpy(call.scalar.data(), c.scalar, sizeof(c.scalar));
  call.root = c.root;
  call.stream = static_cast<ddl::cuda::Stream>(c.stream);
  call.name = c.name;
  return call;
}

ddl_stream_became in_c(const StreamCommunicator::Became& became) {
  using Where = StreamCommunicator::Where;
  const ddl_stream_where where = became.where == Where::device ? DDL_STREAM_ON_DEVICE
                                 : became.where == Where::host ? DDL_STREAM_ON_HOST
                                                               : DDL_STREAM_NOWHERE;
  return {where, became.batch, static_cast<int32_t>(became.wire)};
}

ddl_stream_result submit(ddl_stream_comm* comm, const ddl_stream_call* call, ddl_stream_became* became,
                         ddl_problem* problem) {
  return guarded(DDL_STREAM_INTERNAL, problem, [&] {
    StreamCommunicator::Became ours;
    const StreamCommunicator::State state = comm->communicator->submit(stream_call_of(*call), &ours);
    if (became) *became = in_c(ours);
    return answer(state, problem);
  });
}

int fuses(ddl_stream_comm* comm) { return comm->communicator->fuses(); }

ddl_stream_result submit_together(ddl_stream_comm* comm, const ddl_stream_call* calls, uint64_t count,
                                  ddl_stream_became* became, ddl_problem* problem) {
  return guarded(DDL_STREAM_INTERNAL, problem, [&] {
    // Groups come again and again: the places stay.
    static thread_local std::vector<StreamCall> ours;
    static thread_local std::vector<StreamCommunicator::Became> parts;
    ours.clear();
    std::transform(calls, calls + count, std::back_inserter(ours), stream_call_of);
    parts.assign(became ? count : 0, {});
    const ddl_stream_result result =
        answer(comm->communicator->submit_together(ours, became ? parts.data() : nullptr), problem);
    std::transform(parts.begin(), parts.end(), became, in_c);
    return result;
  });
}

ddl_stream_result state(ddl_stream_comm* comm, ddl_problem* problem) {
  return guarded(DDL_STREAM_INTERNAL, problem, [&] { return answer(comm->communicator->state(), problem); });
}

void abort_communicator(ddl_stream_comm* comm) {
  guarded_in_silence(0, [&] { return comm->communicator->abort(), 0; });
}

void destroy(ddl_stream_comm* comm) {
  guarded_in_silence(0, [&] { return delete comm, 0; });
}

}  // namespace

extern "C" const ddl_stream_api ddl_stream_functions;
const ddl_stream_api ddl_stream_functions = {
    .usable = usable,
    .current_context = current_context,
    .context_of_device = context_of_device,
    .use_context = use_context,
    .device_of = device_of,
    .allocate = allocate,
    .release = release,
    .make_id = make_id,
    .is_id = is_id,
    .set_up = set_up,
    .share = share,
    .start_all_gather = start_all_gather,
    .test_all_gather = test_all_gather,
    .leave = leave,
    .part_of = part_of,
    .lease = lease,
    .end_lease = end_lease,
    .open_rails = open_rails,
    .open = open,
    .split = split,
    .place = place,
    .submit = submit,
    .fuses = fuses,
    .submit_together = submit_together,
    .state = state,
    .abort = abort_communicator,
    .destroy = destroy,
};
