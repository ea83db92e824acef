#include "interpose/nccl/call.hpp"

#include <array>

#include "interpose/nccl/group.hpp"

namespace ddl::nccl {
namespace {

using Verb = Call::Verb;

constexpr std::array<Bytes, 12> kTypeBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

}  // namespace

const char* name_of(Verb verb) {
  static constexpr const char* kNames[] = {
      "ncclAllReduce", "ncclReduce", "ncclBcast",   "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
      "ncclAlltoAll",  "ncclGather", "ncclScatter", "ncclSend",      "ncclRecv",      "ncclRedOpDestroy"};
  return kNames[static_cast<std::size_t>(verb)];
}

Bytes bytes_of_type(ncclDataType_t type) {
  if (type < 0 || static_cast<std::size_t>(type) >= kTypeBytes.size()) return 0;
  return kTypeBytes[static_cast<std::size_t>(type)];
}

int size_of(const Call& call) {
  const int size = call.record ? call.record->size.load() : 0;
  return size > 0 ? size : size_of(call.comm);
}

Bytes bytes_of(const Call& call, int ranks) {
  Bytes share = call.count * bytes_of_type(call.type);
  switch (call.verb) {
    case Verb::all_gather:
    case Verb::reduce_scatter:
    case Verb::all_to_all:
    case Verb::gather:
    case Verb::scatter:
      return share * static_cast<Bytes>(ranks);
    default:
      return share;
  }
}

ncclResult_t issue(const Call& c) {
  switch (c.verb) {
    case Verb::all_reduce:
      return original::ncclAllReduce(c.in, c.out, c.count, c.type, c.op, c.comm, c.stream);
    case Verb::reduce:
      return original::ncclReduce(c.in, c.out, c.count, c.type, c.op, c.peer, c.comm, c.stream);
    case Verb::bcast:
      return original::ncclBcast(c.out, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::broadcast:
      return original::ncclBroadcast(c.in, c.out, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::all_gather:
      return original::ncclAllGather(c.in, c.out, c.count, c.type, c.comm, c.stream);
    case Verb::reduce_scatter:
      return original::ncclReduceScatter(c.in, c.out, c.count, c.type, c.op, c.comm, c.stream);
    case Verb::all_to_all:
      return original::ncclAlltoAll(c.in, c.out, c.count, c.type, c.comm, c.stream);
    case Verb::gather:
      return original::ncclGather(c.in, c.out, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::scatter:
      return original::ncclScatter(c.in, c.out, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::send:
      return original::ncclSend(c.in, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::recv:
      return original::ncclRecv(c.out, c.count, c.type, c.peer, c.comm, c.stream);
    case Verb::destroy_op:
      return original::ncclRedOpDestroy(c.op, c.comm);
  }
  return ncclInternalError;
}

ncclResult_t all_reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclAllReduce(in, out, count, type, op, comm, stream);
  return submit({Verb::all_reduce, in, out, count, type, op, 0, comm, stream});
}

ncclResult_t reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int root, ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclReduce(in, out, count, type, op, root, comm, stream);
  return submit({Verb::reduce, in, out, count, type, op, root, comm, stream});
}

ncclResult_t bcast(void* buffer, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                   cudaStream_t stream) {
  if (passes()) return original::ncclBcast(buffer, count, type, root, comm, stream);
  return submit({Verb::bcast, buffer, buffer, count, type, ncclSum, root, comm, stream});
}

ncclResult_t broadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                       ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclBroadcast(in, out, count, type, root, comm, stream);
  return submit({Verb::broadcast, in, out, count, type, ncclSum, root, comm, stream});
}

ncclResult_t all_gather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
  if (passes()) return original::ncclAllGather(in, out, count, type, comm, stream);
  return submit({Verb::all_gather, in, out, count, type, ncclSum, 0, comm, stream});
}

ncclResult_t reduce_scatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclReduceScatter(in, out, count, type, op, comm, stream);
  return submit({Verb::reduce_scatter, in, out, count, type, op, 0, comm, stream});
}

ncclResult_t all_to_all(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                        cudaStream_t stream) {
  if (passes()) return original::ncclAlltoAll(in, out, count, type, comm, stream);
  return submit({Verb::all_to_all, in, out, count, type, ncclSum, 0, comm, stream});
}

ncclResult_t gather(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                    ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclGather(in, out, count, type, root, comm, stream);
  return submit({Verb::gather, in, out, count, type, ncclSum, root, comm, stream});
}

ncclResult_t scatter(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                     ncclComm_t comm, cudaStream_t stream) {
  if (passes()) return original::ncclScatter(in, out, count, type, root, comm, stream);
  return submit({Verb::scatter, in, out, count, type, ncclSum, root, comm, stream});
}

ncclResult_t send(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  if (passes()) return original::ncclSend(in, count, type, peer, comm, stream);
  return submit({Verb::send, in, nullptr, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t recv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                  cudaStream_t stream) {
  if (passes()) return original::ncclRecv(out, count, type, peer, comm, stream);
  return submit({Verb::recv, nullptr, out, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t red_op_destroy(ncclRedOp_t op, ncclComm_t comm) {
  if (passes()) return original::ncclRedOpDestroy(op, comm);
  return submit({Verb::destroy_op, nullptr, nullptr, 0, ncclInt8, op, 0, comm, nullptr});
}

}  // namespace ddl::nccl
