// All collectives in whole jobs: shared memory and real wires, ranks as threads.
#include <gtest/gtest.h>

#include <thread>

#include "core/bootstrap/rendezvous_server.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/rendezvous_member.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

using test::CallBuffers;
using test::RendezvousMember;
using test::Where;

void run(RendezvousMember& member, Kind kind, Rank root, Elements count, Where where) {
  CallBuffers buffers(kind, root, member.job.rank(), member.job.size(), count, where);
  Engine& engine = member.job.engine();
  auto operation = test::start(engine, *member.world, buffers.call);
  engine.wait(*member.world, *operation);
  buffers.expect_right(member.job.rank(), member.job.size());
}

// To the next rank and from the one before.
void run_ring(RendezvousMember& member, Elements count) {
  Rank me = member.job.rank(), size = member.job.size();
  if (size == 1) return;
  CallBuffers to(Kind::send, (me + 1) % size, me, size, count, Where::apart);
  CallBuffers from(Kind::receive, (me + size - 1) % size, me, size, count, Where::apart);
  Engine& engine = member.job.engine();
  std::vector<Completion> done(2);
  engine.start_together(*member.world, std::vector<Call>{to.call, from.call}, done);
  for (const Completion& one : done) engine.wait(*member.world, one);
  from.expect_right(me, size);
}

void run_all(Rank size, const std::vector<std::string>& variables) {
  RendezvousServer server({test::kLong_s, test::kLong_s});
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      RendezvousMember member(server.id(), rank, size, parse_env(variables));
      for (Elements count : {0, 1, 7, 1000, 200'003}) {
        for (Kind kind : test::kAllKinds)
          for (Where where : {Where::in_place, Where::apart})
            run(member, kind, has_root(kind) ? size - 1 : 0, count, where);
        run_ring(member, count);
      }
      EXPECT_EQ(member.job.engine().failure(), "");
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST(CollectivesJob, AllCollectivesWorkThroughSharedMemory) {
  for (Rank size : {1, 2, 4}) run_all(size, {});
}

TEST(CollectivesJob, AllCollectivesWorkOverTcp) { run_all(5, {"DDL_FAKE_HOSTS=2,1,2", "DDL_WIRE=tcp"}); }

TEST(CollectivesJob, AllCollectivesWorkOverUcx) { run_all(3, {"DDL_FAKE_HOSTS=2,1", "DDL_WIRE=ucx"}); }

}  // namespace ddl
