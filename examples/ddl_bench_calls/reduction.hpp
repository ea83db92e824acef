// One all-reduce of float32 sums with its two buffers, over communicators of as many ranks as MPI_COMM_WORLD,
// in the same order. Some elements are checked: before each timed part they get new values and the result is
// spoiled there, so that a call that does nothing is found out. One thread at a time.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace calls {

class Reduction {
 public:
  explicit Reduction(std::uint64_t bytes);

  void prepare();
  void call(MPI_Comm comm) {
    MPI_Allreduce(given_.data(), result_.data(), count(), MPI_FLOAT, MPI_SUM, comm);
  }
  MPI_Request start(MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(given_.data(), result_.data(), count(), MPI_FLOAT, MPI_SUM, comm, &request);
    return request;
  }
  bool right() const;
  std::uint64_t bytes() const { return given_.size() * sizeof(float); }

 private:
  int count() const { return static_cast<int>(given_.size()); }
  float contribution(int rank, std::size_t place) const;

  std::vector<float> given_;
  std::vector<float> result_;
  std::vector<std::size_t> checked_;
  int rank_ = 0;
  int ranks_ = 1;
  int round_ = 0;
};

}  // namespace calls
