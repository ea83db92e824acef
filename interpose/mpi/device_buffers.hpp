// Buffers in device memory under an MPI library that cannot read them: the original works on copies in host
// memory. Plain buffers are passed on as they are.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>

namespace ddl::mpi {

/// Whether the original must not be given one of these pointers.
bool needs_host_copy(const void* one, const void* other);

/// Whether the elements there are in device memory.
bool is_device(const void* buffer, MPI_Datatype type);

/// What the original is given in place of a buffer, as long as this lives: the buffer, or a copy of all that
/// lies between the first and the last of its elements, gaps between them included.
class HostBuffer {
 public:
  HostBuffer(void* buffer, int count, MPI_Datatype type);
  void* get() const { return copy_ ? copy_.get() - first_ : buffer_; }
  /// Whether that is for MPI alone, which reads device memory.
  bool is_device() const { return is_device_ && !copy_; }
  /// From the device and back to it; false when the driver reports an error. Nothing for a plain buffer.
  bool fetch();
  bool write_back();

 private:
  void* buffer_;
  bool is_device_;
  MPI_Aint first_ = 0, bytes_ = 0;  // where the elements lie, relative to the buffer
  std::unique_ptr<std::byte[]> copy_;
};

/// Of a call for which device memory could not be copied.
int report_device_failure(const char* collective, MPI_Comm comm);

}  // namespace ddl::mpi
