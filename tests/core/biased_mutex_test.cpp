#include "core/base/biased_mutex.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

namespace ddl {
namespace {

// What only one thread at a time may touch: the two numbers are equal whenever somebody comes.
struct Guarded {
  BiasedMutex mutex;
  long first = 0, second = 0;
  long torn = 0;

  void touch() {
    torn += first != second;
    ++first;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++second;
  }
};

}  // namespace

TEST(BiasedMutex, OneThreadAloneKeepsTheBias) {
  Guarded guarded;
  for (int i = 0; i < 1000; ++i) {
    std::lock_guard lock(guarded.mutex);
    guarded.touch();
  }
  std::unique_lock tried(guarded.mutex, std::try_to_lock);
  EXPECT_TRUE(tried.owns_lock());
  tried.unlock();
  const bool biased = guarded.mutex.is_biased();
  std::thread([&] {
    for (int i = 0; i < 3; ++i) {
      std::lock_guard lock(guarded.mutex);
      guarded.touch();
    }
  }).join();
  EXPECT_EQ(guarded.mutex.is_biased(), biased) << "a few visits do not end it";
  EXPECT_EQ(guarded.torn, 0);
}

TEST(BiasedMutex, RareVisitsKeepTheBias) {
  Guarded guarded;
  { std::lock_guard lock(guarded.mutex); }
  const bool biased = guarded.mutex.is_biased();
  std::thread([&] {
    for (int i = 0; i < 12; ++i) {
      std::lock_guard lock(guarded.mutex);
      guarded.touch();
      if (i % 3 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
  }).join();
  EXPECT_EQ(guarded.mutex.is_biased(), biased);
  EXPECT_EQ(guarded.torn, 0);
}

TEST(BiasedMutex, VisitorsAndTheOwnerExcludeEachOther) {
  constexpr int kRounds = 300, kVisitors = 3;
  for (int round = 0; round < kRounds; ++round) {  // each has its bias, and loses it
    Guarded guarded;
    { std::lock_guard lock(guarded.mutex); }
    std::atomic<int> visiting{kVisitors};
    std::vector<std::thread> visitors;
    for (int v = 0; v < kVisitors; ++v)
      visitors.emplace_back([&] {
        for (int i = 0; i < 10; ++i) {
          std::lock_guard lock(guarded.mutex);
          guarded.touch();
        }
        --visiting;
      });
    long own = 0;
    for (; visiting > 0; ++own) {
      std::lock_guard lock(guarded.mutex);
      guarded.touch();
    }
    for (std::thread& visitor : visitors) visitor.join();
    ASSERT_EQ(guarded.torn, 0);
    ASSERT_EQ(guarded.first, own + 10 * kVisitors);
    EXPECT_FALSE(guarded.mutex.is_biased());
  }
}

TEST(BiasedMutex, WhoOnlyTriesIsNotKeptWaiting) {
  Guarded guarded;
  { std::lock_guard lock(guarded.mutex); }
  std::unique_lock held(guarded.mutex);
  std::thread([&] { EXPECT_FALSE(std::unique_lock(guarded.mutex, std::try_to_lock).owns_lock()); }).join();
  held.unlock();
  std::thread([&] {
    std::unique_lock tried(guarded.mutex, std::try_to_lock);
    EXPECT_TRUE(tried.owns_lock());
  }).join();
  std::lock_guard lock(guarded.mutex);
  guarded.touch();
}

}  // namespace ddl
