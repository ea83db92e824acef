// Calls a gloo of another making; its shortest options lie at the end of what memory there is.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <new>

#include "tests/gloo/foreign_gloo.hpp"

namespace {

// Behind it is nothing.
void* last_bytes_of_a_page(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* first = static_cast<std::byte*>(pages);
  munmap(first + page, page);
  return first + page - bytes;
}

}  // namespace

int main() {
  std::vector<float> values = {1, 2, 3};
  gloo::Group group{"all"};
  gloo::AllreduceOptions all_reduce;
  all_reduce.values = &values;
  all_reduce.group = &group;
  for (int i = 0; i < 3; ++i) gloo::allreduce(all_reduce);
  auto* broadcast =
      new (last_bytes_of_a_page(sizeof(gloo::BroadcastOptions))) gloo::BroadcastOptions{{42, 0}};
  gloo::broadcast(*broadcast);
  int came = 0;
  auto* barrier = new (last_bytes_of_a_page(sizeof(gloo::BarrierOptions))) gloo::BarrierOptions{&came};
  gloo::barrier(*barrier);
  const bool is_right = values[2] == 24 && broadcast->words[1] == 42 && came == 1;
  std::printf("foreign: %g %d, which %s\n", static_cast<double>(values[2]), came,
              is_right ? "is right" : "is wrong");
  return is_right ? 0 : 1;
}
