// What the host does of one call of a communicator of our own: one piece of it, scaled where it is asked for,
// half types as float32. Thread safety: one thread at a time per HostWork.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/device/staged_call.hpp"
#include "core/stream/stream_call.hpp"

namespace ddl {

/// A send of a rank to itself, with the place to put it.
bool is_copy(const StreamCall& call, Rank me);

class HostWork {
 public:
  /// Does a call with all the other ranks, which the program asked for in elements of that type; returns what
  /// went wrong, "" when nothing did.
  using Run = std::function<std::string(const Call&, DType asked)>;
  HostWork(Rank me, Rank ranks, Run run) : me_(me), ranks_(ranks), run_(std::move(run)) {}
  std::string operator()(const StreamCall& call, const StagedChunk& chunk);

 private:
  const Rank me_, ranks_;
  const Run run_;
  std::vector<float> wide_in_, wide_out_;
  std::vector<std::byte> scaled_;
};

}  // namespace ddl
