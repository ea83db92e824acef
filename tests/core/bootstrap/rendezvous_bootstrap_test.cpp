#include "core/bootstrap/rendezvous_bootstrap.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"

namespace ddl {

TEST(RendezvousBootstrap, KnowsTheHostsFirstAndTheCardsWhenAllHavePublished) {
  constexpr double kLong_s = 300;  // only against hanging
  for (Rank size : {1, 2, 3, 7}) {
    RendezvousServer server({kLong_s, kLong_s});
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size; ++rank)
      threads.emplace_back([&, rank] {
        auto seat = std::make_shared<Rendezvous>(server.id(), rank, size, kLong_s);
        RendezvousBootstrap bootstrap(seat);
        EXPECT_EQ(bootstrap.rank(), rank);
        EXPECT_EQ(bootstrap.size(), size);
        EXPECT_EQ(bootstrap.local_size(), size);
        EXPECT_EQ(bootstrap.hosts(), 1);
        std::vector<std::byte> card(static_cast<std::size_t>(rank) + 1, static_cast<std::byte>(rank));
        bootstrap.publish(card);
        for (Rank of = size; of-- > 0;)
          EXPECT_EQ(bootstrap.card_of(of),
                    std::vector(static_cast<std::size_t>(of) + 1, static_cast<std::byte>(of)));
        EXPECT_EQ(seat->exchange({}).size(), static_cast<std::size_t>(size)) << "a round of the caller's own";
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace ddl
