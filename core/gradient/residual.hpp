// Residual: what of one gradient has not been sent yet, on this rank. What does not travel in one step is
// added to what the next one makes. With a momentum, what is added is the velocity u of this rank: u becomes
// momentum * u + gradient, and what has travelled starts again from zero, so that it does not push once more.
//
// Source of the momentum: Lin et al., "Deep gradient compression" (2018), momentum correction and momentum
// factor masking.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/gradient/sparse_rule.hpp"

namespace ddl {

class Residual {
 public:
  /// Of a gradient of float32 or float64; zero.
  Residual(Elements count, DType type, double momentum = 0);

  Elements chunks() const { return chunks_of(count_); }
  Bytes bytes() const { return count_ * size_of(type_) * (velocity_ ? 2 : 1); }
  /// Adds a gradient, and tells the L1 norm of each chunk of the sum, which is then NaN or infinite if one of
  /// its elements is.
  void add(const void* gradient, std::span<float> norms);
  /// Moves these chunks to `packed`, one after the other: `kChunk` elements each, the last of the gradient
  /// filled up with zeros. Where all of them travel nothing is late, and the velocity goes on.
  void take(std::span<const std::uint32_t> chunks, void* packed);

 private:
  template <class T>
  void add_as(const void* gradient, std::span<float> norms);
  template <class T>
  void take_as(std::span<const std::uint32_t> chunks, void* packed);
  template <class T>
  T* values() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  template <class T>
  T* velocity() const {
    return reinterpret_cast<T*>(velocity_.get());
  }

  Elements count_;
  DType type_;
  double momentum_;
  std::unique_ptr<std::byte[]> memory_, velocity_;  // no velocity without a momentum
};

/// The whole gradient made of the chunks that were sent, zero elsewhere.
void put_chunks(DType type, void* gradient, Elements count, std::span<const std::uint32_t> chunks,
                const void* packed);

}  // namespace ddl
