#include "resnet50.hpp"

#include <algorithm>

namespace calls {
namespace {

constexpr std::uint64_t kExpansion = 4;  // a block's last convolution widens to four times its inner channels
constexpr std::uint64_t kClasses = 1000;

class Tensors {
 public:
  // A convolution without bias, and the scale and shift of the normalisation behind it.
  void add_convolution(std::uint64_t from, std::uint64_t to, std::uint64_t side) {
    add(from * to * side * side);
    add(to);
    add(to);
  }
  void add_linear(std::uint64_t from, std::uint64_t to) {
    add(from * to);
    add(to);
  }
  std::vector<std::uint64_t> backwards() const { return {bytes_.rbegin(), bytes_.rend()}; }

 private:
  void add(std::uint64_t elements) { bytes_.push_back(elements * sizeof(float)); }
  std::vector<std::uint64_t> bytes_;
};

void add_block(Tensors& tensors, std::uint64_t from, std::uint64_t inner) {
  tensors.add_convolution(from, inner, 1);
  tensors.add_convolution(inner, inner, 3);
  tensors.add_convolution(inner, inner * kExpansion, 1);
}

}  // namespace

std::vector<std::uint64_t> resnet50_gradients() {
  Tensors tensors;
  tensors.add_convolution(3, 64, 7);
  std::uint64_t from = 64, inner = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      add_block(tensors, from, inner);
      if (block == 0) tensors.add_convolution(from, inner * kExpansion, 1);  // the shortcut changes its width
      from = inner * kExpansion;
    }
    inner *= 2;
  }
  tensors.add_linear(from, kClasses);
  return tensors.backwards();
}

}  // namespace calls
