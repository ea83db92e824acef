// A job over a rendezvous with one communicator of all ranks, as a front without MPI makes it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "core/bootstrap/rendezvous_exchange.hpp"
#include "core/session/session.hpp"
#include "tests/support/patience.hpp"

namespace ddl::test {

struct RendezvousMember {
  std::shared_ptr<RendezvousClient> rendezvous;
  Session job;
  Communicator* world = nullptr;

  RendezvousMember(const RendezvousId& id, Rank rank, Rank size, const Env& env)
      : rendezvous(std::make_shared<RendezvousClient>(id, rank, size, kLong_s)),
        job(start_at(rendezvous), {.env = env}) {
    EXPECT_EQ(job.join().reason, "");
    std::vector<Rank> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    world = &job.engine().create(all_of(job.fresh_id()).front(), job.plans_of(members, rank));
  }
  ~RendezvousMember() {
    job.engine().destroy(*world);
    rendezvous->exchange({});  // the memory of a rank is read by others until all are done
  }

  /// Everybody's value, by rank.
  template <class Value>
  std::vector<Value> all_of(const Value& mine) {
    std::vector<Value> values;
    for (const auto& bytes : rendezvous->exchange(std::as_bytes(std::span(&mine, 1))))
      values.push_back(Frame{{}, bytes}.template as<Value>().value());
    return values;
  }
};

}  // namespace ddl::test
