// What the fuzzing tests share: an honest rank's calls among hostile ranks, what honest ones would have said,
// and what must come of it.
//
// The tests are the same in every run. With DDL_FUZZ_SECONDS (scripts/fuzz.sh) each goes on with other seeds
// for about so long.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/base/clock.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/hostile_job.hpp"

namespace ddl::test {

using Random = std::mt19937;
using Story = std::vector<Said>;

struct Scenario {
  const char* name;
  std::vector<HostIndex> hosts;
  Kind kind;
  Rank root;  // as rank 0 sees it; send, receive: the other rank
  Elements count;
  int calls;  // under way together
  Bytes segment = 0;

  Rank size() const { return static_cast<Rank>(hosts.size()); }
  PlanLimits limits() const { return {1, HostileJob::kStaging, segment, {}}; }
};

inline const Scenario kScenarios[] = {
    {"one-shot", {0, 0}, Kind::all_reduce, 0, 100, 3},
    {"one-shot of three, inline", {0, 0, 0}, Kind::all_reduce, 0, 5, 2},
    {"in many segments", {0, 0}, Kind::all_reduce, 0, 10'003, 2, 4 << 10},
    {"between hosts", {0, 1}, Kind::all_reduce, 0, 7, 3},
    {"between hosts in many segments", {0, 1}, Kind::all_reduce, 0, 10'003, 2, 4 << 10},
    {"two hosts of two", {0, 0, 1, 1}, Kind::all_reduce, 0, 5'000, 1, 4 << 10},
    {"receive", {0, 0}, Kind::receive, 1, 3'000, 2},
    {"send", {0, 0}, Kind::send, 1, 3'000, 2},
    {"receive between hosts", {0, 1}, Kind::receive, 1, 3'000, 2, 4 << 10},
    {"send between hosts", {0, 1}, Kind::send, 1, 3'000, 2, 4 << 10},
    {"broadcast", {0, 0, 0}, Kind::broadcast, 1, 4'000, 2},
    {"broadcast between hosts", {0, 1, 1}, Kind::broadcast, 1, 4'000, 2, 4 << 10},
    {"broadcast from here", {0, 0, 1}, Kind::broadcast, 0, 4'000, 1, 4 << 10},
};

inline Kind seen_by(Rank rank, Kind kind) {
  if (rank == 0 || !is_between_two(kind)) return kind;
  return kind == Kind::send ? Kind::receive : Kind::send;
}

// The calls of one rank of a scenario. Whatever is not done when they go never will be.
struct Calls {
  Communicator& communicator;
  Engine& engine;
  std::vector<std::unique_ptr<CallBuffers>> buffers;
  std::vector<std::unique_ptr<Completion>> completions;
  Rank me, size;

  Calls(const Scenario& s, HostileJob& job, Rank rank)
      : communicator(job.create(rank, s.limits())), engine(job.engine(rank)), me(rank), size(s.size()) {
    Rank root = is_between_two(s.kind) && me != 0 ? 0 : s.root;
    for (int i = 0; i < s.calls; ++i) {
      Kind kind = seen_by(me, s.kind);
      buffers.push_back(std::make_unique<CallBuffers>(kind, root, me, size, s.count, Where::apart));
      completions.push_back(std::make_unique<Completion>());
    }
  }
  ~Calls() { engine.fail("the test is over"); }
  void start() {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Call& call = buffers[i]->call;
      if (is_between_two(call.kind))
        engine.start_together(communicator, {&call, 1}, {completions[i].get(), 1});
      else
        engine.start(communicator, call, *completions[i]);
    }
  }
  bool done() const {
    return std::all_of(completions.begin(), completions.end(), [](const auto& one) { return one->done(); });
  }
  bool over() const { return done() || engine.failed(); }
  void move() {
    for (const auto& one : completions) engine.test(*one);
  }
};

// What honest ranks say to rank 0.
inline Story honest_story(const Scenario& s) {
  HostileJob job(s.hosts);
  std::vector<std::unique_ptr<Calls>> calls;
  for (Rank rank = 0; rank < s.size(); ++rank) calls.push_back(std::make_unique<Calls>(s, job, rank));
  for (auto& one : calls) one->start();
  auto done = [](const auto& one) { return one->done(); };
  for (int i = 0; i < 100'000 && !std::all_of(calls.begin(), calls.end(), done); ++i)
    for (auto& one : calls) one->move();
  EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), done)) << s.name;
  for (auto& one : calls) EXPECT_EQ(one->engine.failure(), "") << s.name;
  EXPECT_FALSE(job.heard().empty()) << s.name;
  return job.heard();
}

// What must come of a story.
enum class Fate { right, refused, open };

inline void expect_named(const std::string& failure, std::span<const Rank> suspects) {
  bool named = std::any_of(suspects.begin(), suspects.end(), [&](Rank rank) {
    return failure.find("rank " + std::to_string(rank)) != std::string::npos;
  });
  EXPECT_TRUE(named && (failure.find("call number") != std::string::npos ||
                        failure.find("is gone") != std::string::npos))
      << failure;
}

// Of a refusal: whom it names; any of these may have lied.
inline void expect_named_if_refused(const Calls& calls, std::span<const Rank> suspects) {
  if (const std::string failure = calls.engine.failure(); !failure.empty()) expect_named(failure, suspects);
}

inline void expect_sane(const Calls& calls, Fate fate, std::span<const Rank> suspects) {
  std::string failure = calls.engine.failure();
  if (fate == Fate::right) {
    EXPECT_TRUE(failure.empty() && calls.done()) << failure;
  }
  if (fate == Fate::refused) {
    EXPECT_FALSE(failure.empty()) << "nothing was refused; " << (calls.done() ? "done" : "not done");
  }
  if (!failure.empty()) return expect_named(failure, suspects);
  for (std::size_t i = 0; i < calls.buffers.size(); ++i)
    if (calls.completions[i]->done()) calls.buffers[i]->expect_right(calls.me, calls.size);
}

// So many cases, or more of them for this one's share of the time that the environment gives each test.
template <class Body>
void with_seeds(unsigned cases, const Body& body, std::size_t sharers = std::size(kScenarios)) {
  const char* seconds = std::getenv("DDL_FUZZ_SECONDS");
  Nanoseconds end =
      seconds ? now() + std::atol(seconds) * 1'000'000'000 / static_cast<Nanoseconds>(sharers) : 0;
  unsigned seed = seconds ? std::random_device()() : 0;
  for (unsigned i = 0; (i < cases || now() < end) && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(++seed));
    Random random(seed);
    body(random);
  }
}

}  // namespace ddl::test
