// BlockRing: a ring of which the parts are made when they are first written, each for 16 entries, without
// initial values: who lives briefly pays for what it uses.
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace ddl {

template <class T, std::size_t kEntries>
class BlockRing {
 public:
  static constexpr std::size_t kBlock = 16;
  static_assert(kEntries % kBlock == 0 && std::is_trivially_default_constructible_v<T>);

  void set(std::size_t i, const T& entry) {
    std::unique_ptr<Block>& block = blocks_[i % kEntries / kBlock];
    if (!block) block = std::make_unique_for_overwrite<Block>();
    (*block)[i % kBlock] = entry;
  }
  /// What was set there last; it must have been.
  const T& operator[](std::size_t i) const { return (*blocks_[i % kEntries / kBlock])[i % kBlock]; }

 private:
  using Block = std::array<T, kBlock>;
  std::array<std::unique_ptr<Block>, kEntries / kBlock> blocks_;
};

}  // namespace ddl
