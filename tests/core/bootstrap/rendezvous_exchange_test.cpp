#include "core/bootstrap/rendezvous_exchange.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"
#include "tests/support/patience.hpp"

namespace ddl {
namespace {

using test::kLong_s;

std::vector<std::byte> words_of(Rank rank, std::size_t round) {
  return std::vector(static_cast<std::size_t>(rank) + round, static_cast<std::byte>(rank));
}

}  // namespace

TEST(RendezvousExchange, KnowsTheHostsFirstAndTheWordsOfEveryRoundWhenAllHaveSpoken) {
  for (Rank size : {1, 2, 3, 7}) {
    RendezvousServer server({kLong_s, kLong_s});
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        auto rendezvous = std::make_shared<RendezvousClient>(server.id(), rank, size, kLong_s);
        JobStart start = start_at(rendezvous);
        EXPECT_EQ(start.exchange->rank(), rank);
        EXPECT_EQ(start.exchange->size(), size);
        EXPECT_EQ(start.hosts.local_size, size);
        EXPECT_EQ(start.hosts.hosts, 1);
        for (std::size_t round : {1, 2, 3}) {
          start.exchange->start(words_of(rank, round));
          Exchange::Answers answers = round == 2 ? start.exchange->Exchange::wait()
                                                 : start.exchange->wait();  // by test(), or waiting
          ASSERT_EQ(answers.size(), static_cast<std::size_t>(size));
          for (Rank of = 0; of < size; ++of)
            EXPECT_EQ(answers[static_cast<std::size_t>(of)], words_of(of, round));
        }
        EXPECT_EQ(rendezvous->exchange({}).size(), static_cast<std::size_t>(size))
            << "a round of the caller's own";
      });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(RendezvousExchange, SaysWhyAgainWhenItHasFailed) {
  RendezvousServer server({kLong_s, kLong_s});
  auto rendezvous = std::make_shared<RendezvousClient>(server.id(), 0, 2, kLong_s);
  RendezvousExchange exchange(rendezvous);
  exchange.start({});
  RendezvousClient(server.id(), 1, 2, kLong_s).vanish();
  EXPECT_THROW(exchange.wait(), Error);
  EXPECT_THROW(exchange.start({}), Error);
  EXPECT_THROW(exchange.test(), Error);
}

}  // namespace ddl
