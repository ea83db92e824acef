// Room: memory for what is made anew each time; it grows and never shrinks.
//
// Thread safety: none.
#pragma once

#include <memory>

#include "core/base/types.hpp"

namespace ddl {

class Room {
 public:
  /// At least so many bytes. Where it had fewer, what was there is gone.
  std::byte* of(Bytes bytes) {
    if (bytes > bytes_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      bytes_ = bytes;
    }
    return memory_.get();
  }
  std::byte* get() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Bytes bytes_ = 0;
};

}  // namespace ddl
