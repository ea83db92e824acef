// The wall between C++ and the fronts for communicators of our own: every exception ends here.
#include "core/native_api.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.hpp"
#include "core/engine_types.hpp"
#include "core/native/device.hpp"
#include "core/native/meeting.hpp"
#include "core/native/unique_id.hpp"
#include "core/plan/companion_plan.hpp"

struct ddl_meeting {
  ddl::Meeting meeting;
};

struct ddl_keeper {
  ddl::Rendezvous seat;
};

struct ddl_native {
  std::unique_ptr<ddl::NativeCommunicator> communicator;
};

namespace {

using ddl::NativeCall;
using ddl::NativeCommunicator;

void tell(ddl_problem* problem, const std::string& text) {
  std::size_t length = text.copy(problem->text, sizeof(problem->text) - 1);
  problem->text[length] = 0;
}

template <class Body>
ddl_native_result guarded(ddl_native_result otherwise, ddl_problem* problem, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    tell(problem, error.what());
    return otherwise;
  }
}

// Garbage in the environment has been said by who reads it first; here it costs its effect.
ddl::Env environment() {
  try {
    return ddl::load_env();
  } catch (const ddl::UsageError&) {
    return ddl::parse_env({});
  }
}

int usable() { return environment().enable && ddl::native::driver() != nullptr; }

void* current_context() { return ddl::native::driver() ? ddl::native::current_context() : nullptr; }

void* context_of_device(int32_t ordinal) {
  return ddl::native::driver() ? ddl::native::context_of_device(ordinal) : nullptr;
}

int use_context(void* context) {
  return ddl::native::driver()->context_set(static_cast<ddl::cuda::Context>(context)) == ddl::cuda::kSuccess;
}

int32_t device_of(void* context) { return ddl::native::device_of(static_cast<ddl::cuda::Context>(context)); }

ddl_native_result of_driver(ddl::cuda::Result result, ddl_problem* problem) {
  if (result == ddl::cuda::kSuccess) return DDL_NATIVE_OK;
  tell(problem, ddl::cuda::describe(*ddl::native::driver(), result));
  return DDL_NATIVE_CUDA;
}

ddl_native_result allocate(void** address, uint64_t bytes, ddl_problem* problem) {
  ddl::cuda::DevicePointer pointer = 0;
  ddl_native_result result = of_driver(ddl::native::driver()->allocate(&pointer, bytes), problem);
  *address = reinterpret_cast<void*>(pointer);
  return result;
}

ddl_native_result release(void* address, ddl_problem* problem) {
  return of_driver(ddl::native::driver()->free(reinterpret_cast<ddl::cuda::DevicePointer>(address)), problem);
}

std::span<const std::byte, ddl::RendezvousId::kBytes> bytes_of(const void* id) {
  return std::span<const std::byte, ddl::RendezvousId::kBytes>(static_cast<const std::byte*>(id),
                                                               ddl::RendezvousId::kBytes);
}

ddl::RendezvousId id_from(const void* id) {
  if (auto ours = ddl::RendezvousId::from(bytes_of(id))) return *ours;
  throw ddl::Error("a communicator has no meeting place of ours");
}

ddl_native_result make_id(void* id, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    ddl::RendezvousId made = ddl::make_unique_id(environment());
    std::memcpy(id, made.bytes().data(), ddl::RendezvousId::kBytes);
    return DDL_NATIVE_OK;
  });
}

int is_id(const void* id) { return ddl::RendezvousId::is_ours(bytes_of(id)); }

ddl_companion companion_of(const ddl::Meeting& meeting) {
  ddl_companion companion{};
  const ddl::MeetingOutcome& outcome = meeting.outcome();
  if (!outcome.grid) return companion;
  static_assert(DDL_COMPANION_DIMENSIONS == ddl::kMostCompanionDimensions);
  companion.segment_bytes = outcome.segment;
  for (ddl::CompanionWay way : outcome.ways) companion.way[companion.ways++] = static_cast<int32_t>(way);
  for (const ddl::CompanionDimension& d : ddl::companion_layout(*outcome.grid, meeting.rank()))
    companion.dimension[companion.dimensions++] = {d.extent, d.first, d.place};
  return companion;
}

ddl_native_result meet(const ddl_seat* seat, ddl_meeting** meeting, ddl_met* met, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    auto host = seat->host < 0 ? std::nullopt : std::optional<ddl::HostIndex>(seat->host);
    *meeting =
        new ddl_meeting{ddl::Meeting(id_from(seat->id), seat->rank, seat->size,
                                     {seat->has_original != 0, seat->can_split != 0, seat->by_sockets != 0},
                                     host, static_cast<ddl::cuda::Context>(seat->context), environment())};
    const ddl::Meeting& held = (*meeting)->meeting;
    *met = {held.is_ours(), held.host().value_or(-1), held.outcome().splits_meet(), companion_of(held)};
    return DDL_NATIVE_OK;
  });
}

void part_of(const void* id, uint64_t number, int32_t color, void* part) {
  ddl_problem unsaid;
  guarded(DDL_NATIVE_INTERNAL, &unsaid, [&] {
    const ddl::RendezvousId made = id_from(id).part(number, color);
    std::memcpy(part, made.bytes().data(), ddl::RendezvousId::kBytes);
    return DDL_NATIVE_OK;
  });
}

// Nobody else is in that circle.
ddl_native_result keep(const void* id, ddl_keeper** keeper, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    *keeper = new ddl_keeper{{id_from(id).part(0, 0), 0, 1, environment().timeout_s}};
    return DDL_NATIVE_OK;
  });
}

void let_go(ddl_keeper* keeper) { delete keeper; }

ddl_native_result share(ddl_meeting* meeting, void* original_id, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    std::vector<std::byte> id = meeting->meeting.share(bytes_of(original_id));
    if (id.size() != ddl::RendezvousId::kBytes) throw ddl::Error("rank 0 has no unique id of NCCL");
    std::copy(id.begin(), id.end(), static_cast<std::byte*>(original_id));
    return DDL_NATIVE_OK;
  });
}

ddl_native_result tell_all(ddl_meeting* meeting, const void* bytes, uint64_t size, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    meeting->meeting.tell({static_cast<const std::byte*>(bytes), size});
    return DDL_NATIVE_OK;
  });
}

ddl_native_result hear_all(ddl_meeting* meeting, int32_t wait, void* all, uint64_t size_of_each,
                           int32_t* heard, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    std::optional<ddl::Rendezvous::Blobs> blobs = meeting->meeting.hear(wait != 0);
    *heard = blobs.has_value();
    if (!blobs) return DDL_NATIVE_OK;
    auto* to = static_cast<std::byte*>(all);
    for (const std::vector<std::byte>& blob : *blobs) {
      if (blob.size() != size_of_each) throw ddl::Error("a rank says something else than the others");
      to = std::copy(blob.begin(), blob.end(), to);
    }
    return DDL_NATIVE_OK;
  });
}

void leave(ddl_meeting* meeting) { delete meeting; }

ddl_native_result open_rails(const void* id, int32_t place, int32_t extent, void* context, const char* who,
                             ddl_native** native, ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    *native = new ddl_native{ddl::open_apart(id_from(id), place, extent,
                                             static_cast<ddl::cuda::Context>(context), environment(), who)};
    return DDL_NATIVE_OK;
  });
}

ddl_native_result open(ddl_meeting* ends, ddl_native** native, ddl_problem* problem) {
  std::unique_ptr<ddl_meeting> meeting(ends);
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    *native = new ddl_native{meeting->meeting.open()};
    return DDL_NATIVE_OK;
  });
}

ddl_native_result split(ddl_native* parent, int32_t color, int32_t key, ddl_native** created,
                        ddl_problem* problem) {
  return guarded(DDL_NATIVE_SYSTEM, problem, [&] {
    auto child = parent->communicator->split(color < 0 ? std::nullopt : std::optional<int>(color), key);
    *created = child ? new ddl_native{std::move(child)} : nullptr;
    return DDL_NATIVE_OK;
  });
}

void place(ddl_native* native, int32_t* rank, int32_t* size) {
  *rank = native->communicator->rank();
  *size = native->communicator->size();
}

ddl_native_result answer(const NativeCommunicator::State& state, ddl_problem* problem) {
  tell(problem, state.text);
  switch (state.trouble) {
    case NativeCommunicator::Trouble::none:
      return DDL_NATIVE_OK;
    case NativeCommunicator::Trouble::cuda:
      return DDL_NATIVE_CUDA;
    case NativeCommunicator::Trouble::bad_argument:
      return DDL_NATIVE_BAD_ARGUMENT;
    case NativeCommunicator::Trouble::bad_usage:
      return DDL_NATIVE_BAD_USAGE;
    case NativeCommunicator::Trouble::peer:
      return DDL_NATIVE_PEER;
  }
  return DDL_NATIVE_INTERNAL;
}

NativeCall call_of(const ddl_native_call& c) {
  NativeCall call;
  call.kind = ddl::from_c(c.kind);
  call.in = reinterpret_cast<ddl::cuda::DevicePointer>(c.in);
  call.out = reinterpret_cast<ddl::cuda::DevicePointer>(c.out);
  call.count = c.count;
  call.type = ddl::from_c(c.type);
  call.op = ddl::from_c(c.op);
  call.scale = static_cast<NativeCall::Scale>(c.scale);
  std::memcpy(call.scalar.data(), c.scalar, sizeof(c.scalar));
  call.root = c.root;
  call.stream = static_cast<ddl::cuda::Stream>(c.stream);
  call.name = c.name;
  return call;
}

ddl_native_result submit(ddl_native* native, const ddl_native_call* call, ddl_problem* problem) {
  return guarded(DDL_NATIVE_INTERNAL, problem,
                 [&] { return answer(native->communicator->submit(call_of(*call)), problem); });
}

ddl_native_result state(ddl_native* native, ddl_problem* problem) {
  return guarded(DDL_NATIVE_INTERNAL, problem,
                 [&] { return answer(native->communicator->state(), problem); });
}

void abort_native(ddl_native* native) {
  ddl_problem unsaid;
  guarded(DDL_NATIVE_INTERNAL, &unsaid, [&] { return native->communicator->abort(), DDL_NATIVE_OK; });
}

void destroy(ddl_native* native) {
  ddl_problem unsaid;
  guarded(DDL_NATIVE_INTERNAL, &unsaid, [&] { return delete native, DDL_NATIVE_OK; });
}

}  // namespace

extern "C" const ddl_native_api ddl_native_functions;
const ddl_native_api ddl_native_functions = {
    .usable = usable,
    .current_context = current_context,
    .context_of_device = context_of_device,
    .use_context = use_context,
    .device_of = device_of,
    .allocate = allocate,
    .release = release,
    .make_id = make_id,
    .is_id = is_id,
    .meet = meet,
    .share = share,
    .tell = tell_all,
    .hear = hear_all,
    .leave = leave,
    .part_of = part_of,
    .keep = keep,
    .let_go = let_go,
    .open_rails = open_rails,
    .open = open,
    .split = split,
    .place = place,
    .submit = submit,
    .state = state,
    .abort = abort_native,
    .destroy = destroy,
};
