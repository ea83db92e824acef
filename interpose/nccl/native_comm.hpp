// One communicator of our own as the front knows it; for native.cpp and native_call.cpp alone.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "interpose/nccl/native.hpp"

namespace ddl::nccl {

/// A sum of inputs that are multiplied first.
struct OwnOp {
  ncclDataType_t type;
  std::array<unsigned char, DDL_NATIVE_SCALAR_BYTES> scalar;
};

struct NativeComm {
  ddl_native* engine;
  int rank, size, device;
  std::mutex mutex;  // of what follows
  std::map<ncclRedOp_t, OwnOp> ops;
  std::array<char, DDL_NATIVE_TEXT_BYTES> last_error{};  // lent to the program

  ~NativeComm() { nccl::engine()->destroy(engine); }
};

/// Null when it was destroyed, or never was.
std::shared_ptr<NativeComm> find_native(ncclComm_t comm);

/// Runs `body` with the communicator, or complains that it is gone.
template <class Body>
ncclResult_t with_native(ncclComm_t comm, const char* function, Body body) {
  std::shared_ptr<NativeComm> found = find_native(comm);
  if (found) return body(*found);
  return complain(nullptr, ncclInvalidArgument,
                  std::string(function) + " names a communicator that was destroyed; use it before that");
}

}  // namespace ddl::nccl
