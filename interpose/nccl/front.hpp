// The NCCL front: what stands between the shim's hooks and whoever serves a communicator: the original
// library, in the order of the calls; the engine (stream_comms.hpp); or the original by a plan of ours
// (hierarchies.hpp). Where a report is wanted, every call is counted, and why it went where it went.
//
// The rule a user can break: call NCCL through `original::` only, never by its public name, which is our own
// hook. Thread safety: all of it; NCCL's handles may be used by one thread at a time each, as NCCL itself
// demands.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "core/base/types.hpp"
#include "interpose/front.h"
#include "interpose/nccl/nccl_api.h"

namespace ddl::nccl {

/// The originals; a slot is null where no NCCL library is in the process.
const ddl_nccl_table& next();

/// Whether there ever was a communicator that is more than the original's own, or a report is wanted: calls
/// are looked at one by one. Set for good.
inline constinit std::atomic<bool> is_watched{false};

/// What a function of NCCL answers when there is no NCCL library; says so once.
ncclResult_t no_original(const char* name);

template <class Result>
struct Missing {
  static Result answer(const char* name) { return static_cast<Result>(no_original(name)); }
};
template <>
struct Missing<const char*> {
  static const char* answer(const char*) { return "no NCCL library is loaded in this process"; }
};
template <>
struct Missing<ncclTeam_t> {
  static ncclTeam_t answer(const char* name) { return no_original(name), ncclTeam_t{}; }
};
template <>
struct Missing<void> {
  static void answer(const char*) {}
};

/// NCCL's functions as the program would have reached them without us, with their types.
namespace original {
#define DDL_NCCL_HOOK(Result, name, parameters, arguments)                      \
  inline Result name parameters {                                               \
    auto call = reinterpret_cast<Result(*) parameters>(next().name);            \
    return call ? call arguments : ::ddl::nccl::Missing<Result>::answer(#name); \
  }
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
}  // namespace original

/// The ABI boundary between C++ and the program: what is thrown inside becomes a result and one line.
ncclResult_t report_exception(const std::exception& error);
template <class Body>
ncclResult_t guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    return report_exception(error);
  }
}

/// NCCL's two ways of saying that all is well.
inline bool went_well(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace ddl::nccl
