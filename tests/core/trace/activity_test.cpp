#include "core/trace/activity.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tests/support/seconds.hpp"

namespace ddl {
namespace {

using State = CallStatus::State;

const CallName kAllReduceName("MPI_Allreduce"), kBroadcastName("MPI_Bcast"),
    kReduceScatter("MPI_Reduce_scatter_block");

struct Watched {
  std::unique_ptr<Activity> activity = std::make_unique<Activity>();
  CallRecord& record(std::size_t thread) { return activity->records[thread]; }
  CallStatus status(CommId comm, std::uint64_t number, Nanoseconds now = 0) const {
    return status_for(statuses_of(*activity, now), comm, number);
  }
};

}  // namespace

TEST(Activity, TellsTheCallThatAThreadIsInAndTheLastOne) {
  Watched one;
  EXPECT_EQ(one.status(1, 1).state, State::none);
  one.record(0).begin(kReduceScatter, 5, 17);
  EXPECT_TRUE(one.status(5, 17).is_in(kReduceScatter, 5, 17));
  EXPECT_EQ(one.status(5, 17).name.text(), "MPI_Reduce_scatter_block");
  one.record(0).end();
  EXPECT_EQ(one.status(5, 17).state, State::ended);
  EXPECT_EQ(one.status(5, 17).number, 17u);
  EXPECT_FALSE(one.status(5, 17).is_in(kReduceScatter, 5, 17));
}

TEST(Activity, TakesTheTimeFromWhoLooksAtTheRecordNowAndThen) {
  Watched one;
  one.record(0).begin(kBroadcastName, 5, 1);
  EXPECT_EQ(one.status(5, 1, 9 * kSecond).age, 0);
  stamp(*one.activity, 10 * kSecond);
  stamp(*one.activity, 11 * kSecond);
  EXPECT_EQ(one.status(5, 1, 14 * kSecond).age, 4 * kSecond);
  one.record(0).end();
  EXPECT_EQ(one.status(5, 1, 14 * kSecond).age, 0);
  stamp(*one.activity, 15 * kSecond);
  EXPECT_EQ(one.status(5, 1, 17 * kSecond).age, 2 * kSecond);
}

TEST(Activity, OfCallsThatAreAsTheOneBeforeTheNumberTells) {
  Watched one;
  one.record(0).begin(kBroadcastName, 5, 1);
  stamp(*one.activity, 10 * kSecond);
  one.record(0).end();
  one.record(0).begin_next(2);
  EXPECT_TRUE(one.status(5, 2).is_in(kBroadcastName, 5, 2));
  EXPECT_EQ(one.status(5, 2, 14 * kSecond).age, 0);
  stamp(*one.activity, 15 * kSecond);
  one.record(0).begin(kBroadcastName, 6, 2);  // of a number that was there before
  EXPECT_EQ(one.status(6, 2, 17 * kSecond).age, 0);
  EXPECT_TRUE(one.status(6, 2).is_in(kBroadcastName, 6, 2));
}

TEST(Activity, TellsThatTheOriginalLibraryHasTheCall) {
  Watched one;
  one.record(0).begin(kBroadcastName, 5, 1);
  EXPECT_FALSE(one.status(5, 1).in_original);
  one.record(0).pass();
  EXPECT_TRUE(one.status(5, 1).is_in(kBroadcastName, 5, 1));
  EXPECT_TRUE(one.status(5, 1).in_original);
  one.record(0).end();
  one.record(0).pass();  // none is under way
  EXPECT_EQ(one.status(5, 1).state, State::ended);
  EXPECT_FALSE(one.status(5, 1).in_original);
  one.record(0).begin_next(2);
  EXPECT_FALSE(one.status(5, 2).in_original);
  one.record(0).pass();
  one.record(0).take_back();  // the engine may go on with it
  EXPECT_TRUE(one.status(5, 2).is_in(kBroadcastName, 5, 2));
  EXPECT_FALSE(one.status(5, 2).in_original);
}

TEST(Activity, OfSeveralThreadsTheOneInThatCallTellsMost) {
  Watched one;
  one.record(0).begin(kBroadcastName, 5, 1);
  one.record(1).begin(kAllReduceName, 6, 4);
  one.record(2).begin(kAllReduceName, 7, 9);
  one.record(2).end();
  EXPECT_EQ(one.status(6, 4).comm, 6u);
  EXPECT_EQ(one.status(5, 2).comm, 5u);
  EXPECT_EQ(one.status(7, 9).state, State::inside);  // somewhere: more than what it did last
}

TEST(Activity, CutsLongNamesAndHidesWhatCannotBePrinted) {
  EXPECT_EQ(CallName(std::string(40, 'x')).text(), std::string(31, 'x'));
  EXPECT_EQ(CallName("a\nb\x7f").text(), "a?b?");
}

TEST(Activity, AReaderNeverSeesHalfOfACall) {
  Watched one;
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    for (std::uint64_t n = 1; !ends; ++n) {
      one.record(0).begin(n % 2 ? kAllReduceName : kBroadcastName, n, 2 * n);
      one.record(0).end();
      one.record(0).begin_next(2 * n + 1);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    const CallStatus status = one.status(0, 0);
    if (status.state == State::none) continue;
    EXPECT_EQ(status.comm, status.number / 2);
    EXPECT_EQ(status.name.text(), status.comm % 2 ? "MPI_Allreduce" : "MPI_Bcast");
  }
  ends = true;
  writer.join();
}

}  // namespace ddl
