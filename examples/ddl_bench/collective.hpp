// The collectives that ddl-bench knows: what each takes and gives, how it is called, whether it was right.
//
// Buffers are made of blocks of `count` elements, one or one of each rank. Block b of what a rank gives is
// the pattern of call + b where the collective tells blocks apart.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "options.hpp"
#include "pattern.hpp"

namespace bench {

/// "allreduce", "iallreduce", ...; "copy" is no collective but a yardstick.
const std::vector<std::string>& collective_names();
bool has_root(const std::string& name);
bool reduces(const std::string& name);
bool can_be_in_place(const std::string& name);
/// A barrier has no bytes, so that one size is measured.
bool has_bytes(const std::string& name);
/// Bytes that each rank must send or receive at least, per byte of a block.
double bus_factor(const std::string& name, int ranks);

/// One call after the other of one collective, on blocks of one size.
class Calls {
 public:
  Calls(const Options& options, const Pattern& pattern, std::size_t count);
  /// Fills the buffers for call number `call`,
  void prepare(int call);
  /// makes it,
  void run();
  /// and tells whether its result is right on this rank, and what was given intact.
  bool is_right(int call) const;

 private:
  struct Shape {
    int in = 0, out = 0;          // blocks on this rank
    bool tells_in_apart = false;  // the blocks given are different ones
  };
  enum class Kind {
    kAllreduce,
    kBcast,
    kReduce,
    kAllgather,
    kReduceScatter,
    kAlltoall,
    kGather,
    kScatter,
    kAllgatherv,
    kAlltoallv,
    kGatherv,
    kScatterv,
    kBarrier,
    kCopy
  };

  void start(MPI_Request* request);
  void start_with_counts(MPI_Request* request);
  std::byte* block(std::vector<std::byte>& of, int number) const;
  const std::byte* block(const std::vector<std::byte>& of, int number) const;
  Shape shape() const;

  const Pattern& pattern_;
  const std::size_t count_, bytes_;
  const MPI_Op op_;
  Kind kind_ = Kind::kAllreduce;
  bool is_nonblocking_ = false, in_place_ = false;
  int rank_ = 0, ranks_ = 1;
  std::vector<int> counts_, places_;
  std::vector<std::byte> given_, result_;
};

}  // namespace bench
