#include "core/gradient/residual.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace ddl {
namespace {

// Elements of `chunk` in a gradient of `count`.
Elements length(std::uint32_t chunk, Elements count) { return std::min(kChunk, count - chunk * kChunk); }

// In lanes, so that the compiler may use the registers as wide as they are.
template <class T>
float norm_of(const T* values, Elements count) {
  constexpr Elements kLanes = 16;
  std::array<T, kLanes> sums{};
  Elements i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (Elements lane = 0; lane < kLanes; ++lane) sums[lane] += std::abs(values[i + lane]);
  for (; i < count; ++i) sums[i % kLanes] += std::abs(values[i]);
  T sum = 0;
  for (T one : sums) sum += one;
  return static_cast<float>(sum);
}

}  // namespace

Residual::Residual(Elements count, DType type, double momentum)
    : count_(count),
      type_(type),
      momentum_(momentum),
      memory_(std::make_unique<std::byte[]>(count * size_of(type))),
      velocity_(momentum > 0 ? std::make_unique<std::byte[]>(count * size_of(type)) : nullptr) {}

void Residual::add(const void* gradient, std::span<float> norms) {
  type_ == DType::float32 ? add_as<float>(gradient, norms) : add_as<double>(gradient, norms);
}

void Residual::take(std::span<const std::uint32_t> chunks, void* packed) {
  type_ == DType::float32 ? take_as<float>(chunks, packed) : take_as<double>(chunks, packed);
}

template <class T>
void Residual::add_as(const void* gradient, std::span<float> norms) {
  const auto* g = static_cast<const T*>(gradient);
  const auto momentum = static_cast<T>(momentum_);
  for (std::uint32_t chunk = 0; chunk < norms.size(); ++chunk) {
    const Elements first = chunk * kChunk, n = length(chunk, count_);
    T* kept = values<T>() + first;
    if (T* u = velocity<T>()) {
      for (Elements i = first; i < first + n; ++i) values<T>()[i] += u[i] = momentum * u[i] + g[i];
    } else {
      for (Elements i = 0; i < n; ++i) kept[i] += g[first + i];
    }
    norms[chunk] = norm_of(kept, n);
  }
}

template <class T>
void Residual::take_as(std::span<const std::uint32_t> chunks, void* packed) {
  T* to = static_cast<T*>(packed);
  T* stops = chunks.size() < this->chunks() ? velocity<T>() : nullptr;
  for (std::uint32_t chunk : chunks) {
    const Elements first = chunk * kChunk, n = length(chunk, count_);
    T* kept = values<T>() + first;
    std::copy_n(kept, n, to);
    std::fill(to + n, to + kChunk, T{0});
    std::fill_n(kept, n, T{0});
    if (stops) std::fill_n(stops + first, n, T{0});
    to += kChunk;
  }
}

void put_chunks(DType type, void* gradient, Elements count, std::span<const std::uint32_t> chunks,
                const void* packed) {
  const Bytes element = size_of(type);
  auto* to = static_cast<std::byte*>(gradient);
  const auto* from = static_cast<const std::byte*>(packed);
  Elements done = 0;
  for (std::uint32_t chunk : chunks) {
    const Elements first = chunk * kChunk, n = length(chunk, count);
    std::memset(to + done * element, 0, (first - done) * element);
    std::memcpy(to + first * element, from, n * element);
    from += kChunk * element;
    done = first + n;
  }
  std::memset(to + done * element, 0, (count - done) * element);
}

}  // namespace ddl
