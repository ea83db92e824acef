// Communicators of our own: where two ranks share a GPU, or there is no NCCL. The program's handle points to
// a block whose first word no NCCL takes for its own; it is never passed to the original. A destroyed one
// leaves its record, so that its later use is an error that can be read and not a crash.
// Thread safety: all.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "core/api/stream_api.h"
#include "interpose/nccl/call.hpp"

namespace ddl::nccl {

/// The engine's functions, loaded at the first question; null where there is no CUDA device, no engine, or
/// DDL_ENABLE=0.
const ddl_stream_api* stream_api();
/// For unique ids alone: CUDA has not been initialised for it, as NCCL does not either, since a process that
/// has done that cannot fork ranks.
const ddl_stream_api* id_api();

/// A handle that no NCCL takes for its own, and that is never freed: a program may use it again.
ncclComm_t new_handle();
/// The handle of a new communicator.
ncclComm_t adopt(ddl_stream_comm* ours, int rank, int size, int device);

/// Whether a handle is, or was, one of ours. Costs nothing where none was ever made.
inline bool is_ours(ncclComm_t comm) { return find_ours(comm) != nullptr; }
/// Whether any was ever made.
bool has_ours();
template <class... Arguments>
bool any_ours(Arguments... arguments) {
  [[maybe_unused]] auto one = [](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), ncclComm_t>) return is_ours(argument);
    return false;
  };
  return (false || ... || one(arguments));
}

/// Says one line that ncclGetLastError knows from then on, of this communicator if it is one of ours.
ncclResult_t complain(ncclComm_t comm, ncclResult_t result, const std::string& text);
ncclResult_t result_of(ddl_stream_result result);

/// Submits a call on one of ours.
ncclResult_t perform_ours(const Call& call);
/// Submits those of a group, in their order, which they lose; of a communicator that fuses them all
/// all-reduces together, where the first of them is.
ncclResult_t perform_group(std::vector<Call>& calls);
/// A sum, product, minimum or maximum on one that no handle of the program's stands for; its trouble is said.
ncclResult_t submit_to(ddl_stream_comm* ours, const Call& call);
/// For functions that ours do not have.
ncclResult_t refuse_ours(ncclComm_t comm, const char* name);

ncclResult_t destroy_ours(Comm& record);
ncclResult_t abort_ours(Comm& record);
/// Ends all that are left, when the process ends: nobody waits for them.
void abandon_ours() noexcept;

// The hooks. Each serves our own communicators and leaves others to the original.
ncclResult_t comm_count(ncclComm_t comm, int* count);
ncclResult_t comm_user_rank(ncclComm_t comm, int* rank);
ncclResult_t comm_cu_device(ncclComm_t comm, int* device);
ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t* error);
ncclResult_t comm_finalize(ncclComm_t comm);
ncclResult_t comm_register(ncclComm_t comm, void* buffer, std::size_t bytes, void** handle);
ncclResult_t comm_deregister(ncclComm_t comm, void* handle);
const char* get_last_error(ncclComm_t comm);
ncclResult_t mem_alloc(void** address, std::size_t bytes);
ncclResult_t mem_free(void* address);
ncclResult_t red_op_create_pre_mul_sum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm);

}  // namespace ddl::nccl
