// What the host does of one call of a communicator of our own, or of several that are one operation: one
// piece of it, scaled where it is asked for, half types as float32. Thread safety: one thread at a time per
// HostWork.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device/staged_call.hpp"
#include "core/reduce/reduce.hpp"
#include "core/stream/stream_call.hpp"

namespace ddl {

/// A send of a rank to itself, with the place to put it.
bool is_copy(const StreamCall& call, Rank me);

/// A call as the host has it.
struct HostCall {
  StreamCall call;       // of several: what they have in common, and the elements of all
  WireFormat wire = {};  // what it travels as between hosts
  struct Share {
    Elements room = 0;  // of one of several in all
    Scalar scalar{};
  };
  std::vector<Share> shares = {};  // of several, one behind the other
  std::uint64_t lengths = 0;       // of several: see Call
};

class HostWork {
 public:
  /// Does a call with all the other ranks; returns what went wrong, "" when nothing did.
  using Run = std::function<std::string(const Call&, const WireFormat&)>;
  HostWork(Rank me, Rank ranks, Run run) : me_(me), ranks_(ranks), run_(std::move(run)) {}
  std::string operator()(const HostCall& what, const StagedChunk& chunk);

 private:
  void multiply_all(const HostCall& what, Elements first, DType type, const void* in, Elements count);

  Rank me_, ranks_;
  Run run_;
  std::vector<float> wide_in_, wide_out_;
  std::vector<std::byte> scaled_;
};

}  // namespace ddl
