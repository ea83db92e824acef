// Random programs of several ranks, all of them legal, whose nonblocking all-reduces are fused: right
// results, and no rank waits for ever.
//
// A program is a list of phases that all ranks go through in order. In a phase each rank starts the calls of
// two communicators, those of each in order, but mixed as it likes; and ends, in between, calls of earlier
// phases. Where phases are one call long a rank may make its next call only after it has waited for the last,
// while others run ahead. Some phases are a blocking call.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/lazy_job.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::everybody;
using test::LazyJob;

struct Planned {
  std::size_t comm = 0;
  DType type = DType::float32;
  Op op = Op::sum;
  Elements count = 1;
  bool is_in_place = false;
};
struct Phase {
  bool is_blocking = false;
  std::vector<Planned> calls;
};

std::vector<Phase> random_program(std::mt19937& dice) {
  auto one_of = [&](int n) { return static_cast<int>(dice() % static_cast<unsigned>(n)); };
  const int longest = 1 + one_of(8), phases = 10 + one_of(30);
  std::vector<Phase> program;
  for (int p = 0; p < phases; ++p) {
    Phase phase;
    phase.is_blocking = one_of(8) == 0;
    for (int c = phase.is_blocking ? 1 : 1 + one_of(longest); c > 0; --c) {
      Planned call;
      call.comm = static_cast<std::size_t>(one_of(2));
      call.type = one_of(3) == 0 ? DType::int32 : DType::float32;
      call.op = one_of(4) == 0 ? Op::max : Op::sum;
      call.count = static_cast<Elements>(one_of(5) == 0 ? 1 + one_of(30'000) : 1 + one_of(300));
      call.is_in_place = one_of(2) == 0;
      phase.calls.push_back(call);
    }
    program.push_back(std::move(phase));
  }
  return program;
}

int share(Rank rank, Elements i, std::size_t number) {
  return static_cast<int>((static_cast<Elements>(rank) * 31 + i * 7 + number * 13) % 64);
}

template <class T>
void fill(void* to, Elements count, Rank rank, std::size_t number) {
  for (Elements i = 0; i < count; ++i) static_cast<T*>(to)[i] = static_cast<T>(share(rank, i, number));
}

template <class T>
void expect_right(const void* out, const Planned& call, Rank ranks, std::size_t number) {
  for (Elements i = 0; i < call.count; ++i) {
    int right = 0;
    for (Rank rank = 0; rank < ranks; ++rank) {
      const int one = share(rank, i, number);
      right = call.op == Op::max ? std::max(right, one) : right + one;
    }
    ASSERT_EQ(static_cast<const T*>(out)[i], static_cast<T>(right))
        << "element " << i << " of " << call.count << ", call " << number;
  }
}

// One rank on its way through a program.
class Walker {
 public:
  Walker(LazyJob& job, std::vector<LazyJob::Comm>& comms, Rank rank, unsigned seed)
      : engine_(job.job.engine(rank)), comms_(comms), rank_(rank), ranks_(job.job.size()), dice_(seed) {}

  void walk(const std::vector<Phase>& program) {
    for (const Phase& phase : program) {
      const std::vector<std::size_t> endable = outstanding_;
      for (std::size_t i : order_of(phase)) {
        while (dice_() % 3 == 0) end_some(endable);
        if (phase.is_blocking)
          run(phase.calls[i], number_ + i);
        else
          start(phase.calls[i], number_ + i);
        if (dice_() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(dice_() % 500));
      }
      number_ += phase.calls.size();
    }
    while (!outstanding_.empty()) end_some(outstanding_);
  }

 private:
  struct UnderWay {
    Planned planned;
    std::size_t number = 0;
    std::vector<std::uint32_t> in, out;  // every type here has four bytes
    Completion completion;
  };

  // Those of each communicator stay in order.
  std::vector<std::size_t> order_of(const Phase& phase) {
    std::vector<std::size_t> by_comm[2], order;
    for (std::size_t i = phase.calls.size(); i-- > 0;) by_comm[phase.calls[i].comm].push_back(i);
    while (order.size() < phase.calls.size()) {
      std::vector<std::size_t>& from = by_comm[dice_() % 2];
      if (from.empty()) continue;
      order.push_back(from.back());
      from.pop_back();
    }
    return order;
  }

  Call call_of(UnderWay& one) {
    const Planned& planned = one.planned;
    one.out.resize(planned.count);
    std::vector<std::uint32_t>& in = planned.is_in_place ? one.out : one.in;
    in.resize(planned.count);
    if (planned.type == DType::int32)
      fill<std::int32_t>(in.data(), planned.count, rank_, one.number);
    else
      fill<float>(in.data(), planned.count, rank_, one.number);
    return {in.data(), one.out.data(), planned.count, planned.type, planned.op, "random"};
  }

  void check(const UnderWay& one) {
    if (one.planned.type == DType::int32)
      expect_right<std::int32_t>(one.out.data(), one.planned, ranks_, one.number);
    else
      expect_right<float>(one.out.data(), one.planned, ranks_, one.number);
  }

  void start(const Planned& planned, std::size_t number) {
    auto one = std::make_unique<UnderWay>();
    one->planned = planned;
    one->number = number;
    LazyJob::Comm& comm = comms_[planned.comm];
    const auto me = static_cast<std::size_t>(rank_);
    const Call call = call_of(*one);
    if (comm.lazy[me]->takes(call))
      comm.lazy[me]->start(call, one->completion);
    else
      engine_.start(*comm.plain[me], call, one->completion);
    calls_.push_back(std::move(one));
    outstanding_.push_back(calls_.size() - 1);
  }

  void run(const Planned& planned, std::size_t number) {
    UnderWay one;
    one.planned = planned;
    one.number = number;
    engine_.run(*comms_[planned.comm].plain[static_cast<std::size_t>(rank_)], call_of(one));
    if (!engine_.failed()) check(one);
  }

  // Waits for one of these, or tests it a while, or leaves it to the helper thread.
  void end_some(const std::vector<std::size_t>& endable) {
    if (endable.empty()) return;
    const std::size_t chosen = endable[dice_() % endable.size()];
    auto found = std::find(outstanding_.begin(), outstanding_.end(), chosen);
    if (found == outstanding_.end()) return;
    UnderWay& one = *calls_[chosen];
    switch (dice_() % 4) {
      case 0:
        engine_.poll();
        return;
      case 1:
        while (!engine_.test(one.completion)) std::this_thread::yield();
        break;
      case 2:
        while (!one.completion.done() && !engine_.failed())
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        break;
      default:
        engine_.wait(*comms_[one.planned.comm].plain[static_cast<std::size_t>(rank_)], one.completion);
    }
    if (!engine_.failed()) check(one);
    outstanding_.erase(found);
  }

  Engine& engine_;
  std::vector<LazyJob::Comm>& comms_;
  const Rank rank_, ranks_;
  std::mt19937 dice_;
  std::size_t number_ = 0;
  std::vector<std::unique_ptr<UnderWay>> calls_;
  std::vector<std::size_t> outstanding_;  // of them
};

void try_programs(const std::vector<HostIndex>& hosts, Bytes threshold, unsigned first, unsigned programs) {
  for (unsigned seed = first; seed < first + programs / test::thinned(4); ++seed) {
    SCOPED_TRACE(seed);
    LazyJob job(hosts);
    if (seed % 2) job.job.make_wire_read_late();
    std::vector<LazyJob::Comm> comms;
    comms.push_back(job.create(1, threshold));
    comms.push_back(job.create(2, threshold));
    std::mt19937 dice(seed);
    const std::vector<Phase> program = random_program(dice);
    {
      test::EndsHangingJob ends(job.job);
      job.job.each([&](Rank rank) {
        SCOPED_TRACE(rank);
        Walker(job, comms, rank, seed * 100 + static_cast<unsigned>(rank)).walk(program);
      });
    }
    for (Rank rank = 0; rank < job.job.size(); ++rank) ASSERT_EQ(job.job.engine(rank).failure(), "");
  }
}

}  // namespace

TEST(LazyPrograms, RunOnOneHost) { try_programs({0, 0, 0}, 1 << 20, 100, 15); }
TEST(LazyPrograms, RunBetweenHosts) { try_programs({0, 1}, 1 << 20, 200, 15); }
TEST(LazyPrograms, RunOnUnequalHosts) { try_programs({0, 0, 1, 2, 2}, 1 << 20, 300, 10); }
TEST(LazyPrograms, RunWithALowThreshold) { try_programs({0, 0, 1, 1}, 2000, 400, 15); }

}  // namespace ddl
