// One communicator of our own as the front knows it; for stream_comms.cpp and stream_call.cpp alone.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {

/// A sum of inputs that are multiplied first.
struct OwnOp {
  ncclDataType_t type;
  std::array<unsigned char, DDL_STREAM_SCALAR_BYTES> scalar;
};

struct StreamComm {
  ddl_stream_comm* engine;
  int rank, size, device;
  bool fuses;        // all-reduces of a group may become one operation
  std::mutex mutex;  // of what follows
  std::map<ncclRedOp_t, OwnOp> ops;
  std::array<char, DDL_PROBLEM_BYTES> last_error{};  // lent to the program

  ~StreamComm() { stream_api()->destroy(engine); }
};

/// Runs `body` with one of ours, or complains that it is gone.
template <class Body>
ncclResult_t with_ours(const Comm& record, const char* function, Body body) {
  if (std::shared_ptr<StreamComm> found = record.stream()) return body(*found);
  return complain(nullptr, ncclInvalidArgument,
                  std::string(function) + " names a communicator that was destroyed; use it before that");
}

}  // namespace ddl::nccl
