// A program of its own, because it counts what operator new is asked for: a call whose like has been made
// before allocates nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "core/device/staged_call.hpp"
#include "tests/core/hierarchy/job.hpp"

namespace {

thread_local std::size_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace ddl {
namespace {

using enum HierarchyRoute;

// A library that does nothing, so that one rank is enough.
const ddl_library& idle_library() {
  static const ddl_library table = [] {
    ddl_library idle = test::library_double();
    idle.all_reduce = [](const void*, void*, std::size_t, int, int, void*, void*) { return 0; };
    idle.reduce_scatter = idle.all_reduce_on_rails = idle.all_reduce;
    idle.all_gather = [](const void*, void*, std::size_t, int, void*, void*) { return 0; };
    idle.meet = [](void*, void*, void*) { return 0; };
    return idle;
  }();
  return table;
}

// Of several sizes in turn, as gradients come.
std::size_t allocations_of_calls(HierarchicalCommunicator& on) {
  const std::size_t before = allocations;
  for (Elements count : {1000u, 5000u, 1000u, 300000u, 70u}) {
    PlannedCall how = on.choose({&on, &on, count, 8, 0, 0, nullptr});
    EXPECT_EQ(enqueue(idle_library(), {&how, 1}), 0);
  }
  return allocations - before;
}

}  // namespace

TEST(HierarchicalCommunicatorAllocations, APlannedCallMakesNoneAfterItsFirst) {
  for (HierarchyRoute route : {nccl, rails, whole}) {
    HierarchicalCommunicator on(idle_library(), test::immediate_driver(), nullptr, nullptr,
                                {{{2, 0, 0}, {3, 0, 0}}, test::kSmallCut, {route}});
    on.make_streams();
    EXPECT_GT(allocations_of_calls(on), 0u) << "it counts";
    for (int again = 0; again < 3; ++again) EXPECT_EQ(allocations_of_calls(on), 0u);
  }
}

TEST(HierarchicalCommunicatorAllocations, NorDoesACallWhoseRouteIsFound) {
  test::ExchangeBoard board(1);
  HierarchicalCommunicator on(idle_library(), test::immediate_driver(), nullptr, nullptr,
                              {{{2, 0, 0}, {3, 0, 0}}, test::kSmallCut, {whole, nccl}});
  on.make_streams();
  ASSERT_TRUE(on.tune(std::make_unique<test::BoardExchange>(board, 0), false));
  constexpr int kQuiet = 50;  // rounds in a row: while it measures there are some without
  int quiet = 0;
  for (int round = 0; round < 5000 && quiet < kQuiet; ++round)
    quiet = allocations_of_calls(on) == 0 ? quiet + 1 : 0;
  EXPECT_EQ(quiet, kQuiet);
}

// On rails, a step is a call that the host stages.
TEST(StagedCallAllocations, ASubmittedCallMakesNoneAfterItsFirst) {
  StagedOptions options;
  options.chunk_bytes = 4096;
  StagedCalls calls(test::immediate_driver(), nullptr, options);
  std::vector<std::byte> in(20'000), out(20'000);
  auto address = [](std::vector<std::byte>& buffer) {
    return reinterpret_cast<cuda::DevicePointer>(buffer.data());
  };
  auto allocations_of_calls = [&] {
    const std::size_t before = allocations;
    for (Bytes bytes : {4u, 20'000u, 5'000u})
      EXPECT_EQ(calls.submit({address(in), address(out), bytes}, nullptr,
                             [](const StagedChunk&) { return std::string(); }),
                Submitted::kEnqueued);
    return allocations - before;
  };
  EXPECT_GT(allocations_of_calls(), 0u) << "it counts";
  std::size_t last = 1;
  for (int round = 0; round < 100 && last != 0; ++round) last = allocations_of_calls();  // some are under way
  EXPECT_EQ(last, 0u);
}

}  // namespace ddl
