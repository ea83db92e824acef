// Persistent requests of a communicator whose all-reduces are fused, as a front makes them.
#include "core/session/request_group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"
#include "core/session/identity.hpp"
#include "core/session/session_communicator.hpp"
#include "tests/support/rendezvous_member.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::kLong_s;
using What = Outcome::What;

// A request of one rank: a communicator of its own, and a buffer.
struct Request {
  std::unique_ptr<SessionCommunicator> communicator;
  std::vector<std::int64_t> values;
  std::int64_t starts = 0;
  bool is_done = true;
};

// One rank of a job and its end of a communicator.
class RankOfJob {
 public:
  RankOfJob(const RendezvousId& job, Rank rank, Rank size, const Env& env)
      : member_(job, rank, size, env), id_(member_.all_of(member_.job.fresh_id()).front()) {
    std::vector<Rank> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    parent = std::make_unique<SessionCommunicator>(member_.job, id_, member_.job.plans_of(all, rank));
  }

  Session& session() { return member_.job; }
  Rank rank() const { return member_.job.rank(); }
  std::unique_ptr<Request> make(std::size_t count = 5) {
    auto made = std::make_unique<Request>();
    made->communicator = std::make_unique<SessionCommunicator>(*parent, identity_of(id_, ++made_, 0));
    made->values.resize(count);
    return made;
  }
  void start(Request& request) {
    ++request.starts;
    std::fill(request.values.begin(), request.values.end(), request.starts * 100 + rank());
    request.is_done = false;
    const Call call{request.values.data(),
                    request.values.data(),
                    request.values.size(),
                    DType::int64,
                    Op::sum,
                    "request"};
    SessionCall* started = nullptr;
    const What what = request.communicator->start(call, &request, started).what;
    if (what == What::done) request.is_done = true;
    EXPECT_NE(what, What::failed);
  }
  void wait(Request& request) {
    test::until([&] { return request.is_done; },
                [&] {
                  session().poll();
                  while (auto ended = session().next_ended()) {
                    EXPECT_TRUE(ended->is_right);
                    static_cast<Request*>(ended->owner)->is_done = true;
                  }
                });
    ASSERT_TRUE(request.is_done);
    std::int64_t sum = 0;
    for (Rank rank = 0; rank < session().size(); ++rank) sum += request.starts * 100 + rank;
    ASSERT_EQ(request.values, std::vector<std::int64_t>(request.values.size(), sum));
  }
  /// Of calls that were fused: how many there were, and batches.
  std::pair<int, int> fused() {
    Counters counters;
    std::vector<WireBytes> wire;
    session().engine().collect(counters, wire);
    const nlohmann::json report = counters.to_json();
    if (report["fused"].empty()) return {0, 0};
    return {report["fused"][0]["calls"], report["fused"][0]["batches"]};
  }
  /// Whether the engine has the communicator on which the requests of that group agree.
  bool knows_group(std::uint64_t number) {
    const CommId group = identity_of(id_, ~std::uint64_t{0} - 3, number);
    return !session().engine().members_of(identity_of(group, 0, 0)).empty();
  }
  void meet() { member_.all_of(rank()); }

 private:
  test::RendezvousMember member_;
  const CommId id_;
  std::uint64_t made_ = 0;

 public:
  std::unique_ptr<SessionCommunicator> parent;  // last: it needs the job
};

void each_rank(Rank size, const std::vector<std::string>& env, const std::function<void(RankOfJob&)>& body) {
  RendezvousServer server({kLong_s, kLong_s});
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      RankOfJob me(server.id(), rank, size, parse_env(env));
      body(me);
      me.meet();  // nobody leaves before all are done
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// More than a group has, in another order on each rank, and the communicator is freed before them.
TEST(RequestGroup, FusesWhatRanksStartInOrdersOfTheirOwn) {
  constexpr std::size_t kRequests = RequestGroup::kMost + 100, kRounds = 4;
  each_rank(3, {"DDL_FAKE_HOSTS=2,1", "DDL_WIRE=tcp", "DDL_LAZY_BYTES=1m"}, [](RankOfJob& me) {
    std::vector<std::unique_ptr<Request>> requests;
    for (std::size_t i = 0; i < kRequests; ++i) requests.push_back(me.make(i % 50 == 0 ? 20'000 : 1 + i % 9));
    me.parent.reset();
    std::vector<Request*> order;
    for (auto& one : requests) order.push_back(one.get());
    std::mt19937 dice(static_cast<unsigned>(me.rank()));
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::shuffle(order.begin(), order.end(), dice);
      for (Request* one : order) me.start(*one);
      for (Request* one : order) me.wait(*one);
    }
    const auto [calls, batches] = me.fused();
    EXPECT_GT(calls, static_cast<int>(kRequests * kRounds / 2));
    EXPECT_LT(batches, calls / 4);
    EXPECT_TRUE(me.knows_group(0) && me.knows_group(1));
    me.meet();
    for (std::size_t i = 0; i < RequestGroup::kMost; ++i) requests[i].reset();
    EXPECT_FALSE(me.knows_group(0)) << "its requests are freed";
    EXPECT_TRUE(me.knows_group(1));
    for (std::size_t i = RequestGroup::kMost; i < kRequests; ++i) {
      me.start(*requests[i]);
      me.wait(*requests[i]);
    }
    requests.clear();
    EXPECT_FALSE(me.knows_group(1));
  });
}

// A program that makes, starts and frees requests for ever has at most two groups, and those of requests that
// stay.
TEST(RequestGroup, IsGoneWhenItsRequestsAreFreed) {
  constexpr std::size_t kGroups = 4;
  each_rank(2, {"DDL_LAZY_BYTES=1m"}, [](RankOfJob& me) {
    std::unique_ptr<Request> stays = me.make();
    for (std::size_t i = 1; i <= kGroups * RequestGroup::kMost; ++i) {
      std::unique_ptr<Request> one = me.make();
      const bool first = me.rank() == 0;
      me.start(first ? *one : *stays);
      me.start(first ? *stays : *one);
      me.wait(*one);
      me.wait(*stays);
    }
    EXPECT_TRUE(me.knows_group(0));
    EXPECT_FALSE(me.knows_group(1) || me.knows_group(2));
    EXPECT_TRUE(me.knows_group(kGroups));
    stays.reset();
    EXPECT_FALSE(me.knows_group(0));
  });
}

TEST(RequestGroup, NothingIsFusedUnlessAsked) {
  each_rank(2, {}, [](RankOfJob& me) {
    std::vector<std::unique_ptr<Request>> requests;
    for (int i = 0; i < 20; ++i) requests.push_back(me.make());
    if (me.rank() == 1) std::reverse(requests.begin(), requests.end());
    for (auto& one : requests) me.start(*one);
    for (auto& one : requests) me.wait(*one);
    EXPECT_EQ(me.fused().first, 0);
    EXPECT_FALSE(me.knows_group(0));
  });
}

}  // namespace ddl
