// One call that moves data (or is ordered among such calls) as a value: what a group records.
#pragma once

#include "interpose/nccl/comms.hpp"

namespace ddl::nccl {

struct Call {
  enum class Verb : std::uint8_t {
    all_reduce,
    reduce,
    bcast,
    broadcast,
    all_gather,
    reduce_scatter,
    all_to_all,
    gather,
    scatter,
    send,
    recv,
    destroy_op,  // no collective, but it must not overtake the calls that use the operation
  };
  Verb verb;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  // as the program gave it: of the whole, or of one rank's share
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  // root, destination or source
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  CommPtr record = {};  // what is known of `comm`, once it was looked up
};

/// The function's public name.
const char* name_of(Call::Verb verb);
/// Bytes of one element; 0 for an unknown type.
Bytes bytes_of_type(ncclDataType_t type);
/// Ranks of its communicator; looked up only where that was not done before.
int size_of(const Call& call);
/// Bytes of the larger of the two buffers of one rank of `ranks`; 0 for an unknown type.
Bytes bytes_of(const Call& call, int ranks);
/// Calls the original.
ncclResult_t issue(const Call& call);

// The hooks.
ncclResult_t all_reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t bcast(void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream);
ncclResult_t broadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream);
ncclResult_t all_gather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t reduce_scatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t all_to_all(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t gather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream);
ncclResult_t scatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream);
ncclResult_t send(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream);
ncclResult_t recv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream);
ncclResult_t red_op_destroy(ncclRedOp_t op, ncclComm_t comm);

}  // namespace ddl::nccl
