// A whole job inside the test process: ranks are engines, hosts are groups of ranks that share regions, and
// the wire is the loopback net. Drive it from one thread (progress in any order) or with a thread per rank
// (each).
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"
#include "core/transport/loopback.hpp"

namespace ddl::test {

/// Repeats a step until something holds, for half a minute at the most: helper threads are at work too, and
/// may have the lock.
template <class Condition, class Step>
void until(Condition holds, Step step) {
  for (Nanoseconds end = now() + 30'000'000'000; !holds() && now() < end;) step();
}

/// What a front does for a nonblocking call.
inline std::unique_ptr<Completion> start(Engine& engine, Communicator& communicator, const Call& call,
                                         PreparedPlan* plan = nullptr) {
  auto completion = std::make_unique<Completion>();
  if (is_between_two(call.kind))
    engine.start_together(communicator, {&call, 1}, {completion.get(), 1});
  else
    engine.start(communicator, call, *completion, plan);
  return completion;
}

class VirtualJob {
 public:
  // Few spins: the threads of a test outnumber the cores.
  explicit VirtualJob(std::vector<HostIndex> host_of_rank, Bytes staging = Bytes{8} << 20,
                      Nanoseconds yields_for = 0, int spins = 20);

  Rank size() const { return static_cast<Rank>(hosts_.size()); }
  Engine& engine(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)].engine; }
  /// From now on the wire copies a payload only when its sender makes progress again, as a full socket would.
  void make_wire_read_late() {
    for (PerRank& rank : ranks_) rank.wire->read_late = true;
  }
  Bytes staging_taken(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank)].local->staging_taken();
  }
  Activity& activity(Rank rank) { return ranks_[static_cast<std::size_t>(rank)].local->activity(); }
  /// How often it has moved the original library.
  int host_progressed(Rank rank) const { return *ranks_[static_cast<std::size_t>(rank)].host_progressed; }
  /// From now on what is flushed has not left before let_flushes_go().
  void hold_flushes() {
    for (PerRank& one : ranks_) one.wire->holds_flushes = true;
  }
  int flushes(Rank rank) const { return wire_of(rank).flushes; }
  /// That it has given to the wire.
  int messages(Rank rank) const { return wire_of(rank).messages; }
  void let_flushes_go(Rank rank) { wire_of(rank).holds_flushes = false; }
  /// The same communicator on all its members (ranks of the job, in the communicator's order).
  std::vector<Communicator*> create(CommId id, const std::vector<Rank>& members,
                                    PlanLimits limits = {1, Bytes{1} << 20, 0},
                                    const std::vector<Rank>& dims = {});
  /// The plans of each of these members.
  std::vector<std::shared_ptr<PlanStore>> plans_of(const std::vector<Rank>& members,
                                                   PlanLimits limits = {1, Bytes{1} << 20, 0},
                                                   const std::vector<Rank>& dims = {}) const;
  /// Runs the body once per rank, each in its own thread.
  template <class Body>
  void each(Body body) {
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size(); ++rank) threads.emplace_back([&, rank] { body(rank); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  // The loopback transport, with what a real wire does to its senders.
  struct TestWire : LoopbackTransport {
    using LoopbackTransport::LoopbackTransport;
    bool read_late = false;
    std::atomic<bool> holds_flushes = false;
    std::atomic<int> flushes = 0;  // so many were held
    std::atomic<int> messages = 0;
    std::vector<std::uint32_t*> flushed;  // those that are; the helper looks at what they count, too
    std::vector<std::pair<Outgoing, std::vector<Rank>>> waiting;

    bool send(const Outgoing& message) override {
      ++messages;
      if (!read_late) return LoopbackTransport::send(message);
      waiting.emplace_back(message, std::vector<Rank>(message.to.begin(), message.to.end()));
      ++*message.unfinished;
      return true;
    }
    void flush(std::span<const Rank>, std::uint32_t& unfinished) override {
      if (!holds_flushes) return;
      ++unfinished;
      flushed.push_back(&unfinished);
      ++flushes;
    }
    bool progress(MessageHandler& handler) override {
      // Arrivals first: the worst case for what still waits.
      bool moved = LoopbackTransport::progress(handler);
      if (!holds_flushes)
        for (std::uint32_t* unfinished : std::exchange(flushed, {})) --*unfinished;
      if (!std::exchange(late_round_, !late_round_)) return moved;
      for (auto& [message, to] : waiting) {
        message.to = to;
        LoopbackTransport::send(message);
        --*message.unfinished;
      }
      waiting.clear();
      return moved;
    }

   private:
    bool late_round_ = false;
  };
  struct PerRank {
    std::unique_ptr<SharedMemoryTransport> local;
    std::unique_ptr<TestWire> wire;
    std::unique_ptr<std::atomic<int>> host_progressed;
    std::unique_ptr<Engine> engine;
  };
  TestWire& wire_of(Rank rank) const { return *ranks_[static_cast<std::size_t>(rank)].wire; }

  std::vector<HostIndex> hosts_;
  LoopbackNet net_;
  std::vector<PerRank> ranks_;
};

inline VirtualJob::VirtualJob(std::vector<HostIndex> host_of_rank, Bytes staging, Nanoseconds yields_for,
                              int spins)
    : hosts_(std::move(host_of_rank)), net_(static_cast<Rank>(hosts_.size())) {
  std::vector<std::vector<LocalPeer>> peers(hosts_.size());  // by host
  auto local_ranks = [&](HostIndex host) {
    return static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host));
  };
  for (Rank rank = 0; rank < size(); ++rank) {
    HostIndex host = hosts_[static_cast<std::size_t>(rank)];
    peers[static_cast<std::size_t>(host)].push_back(
        {rank,
         std::make_shared<Region>(Region::create(local_ranks(host), StagingPool::region_bytes(staging), 1))});
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    const auto& here = peers[static_cast<std::size_t>(hosts_[static_cast<std::size_t>(rank)])];
    int me = 0;
    while (here[static_cast<std::size_t>(me)].rank != rank) ++me;
    PerRank one{std::make_unique<SharedMemoryTransport>(here, me, staging),
                std::make_unique<TestWire>(net_, rank), std::make_unique<std::atomic<int>>(0), nullptr};
    Waiting waiting;
    waiting.host_progress = [host_progressed = one.host_progressed.get()] { ++*host_progressed; };
    waiting.spins = spins;
    waiting.yields_for = yields_for;
    one.engine = std::make_unique<Engine>(Fabrics{one.local.get(), one.wire.get()}, waiting);
    ranks_.push_back(std::move(one));
  }
}

inline std::vector<std::shared_ptr<PlanStore>> VirtualJob::plans_of(const std::vector<Rank>& members,
                                                                    PlanLimits limits,
                                                                    const std::vector<Rank>& dims) const {
  Members all{members, 0, {}, {}};
  for (Rank member : members) all.hosts.push_back(hosts_[static_cast<std::size_t>(member)]);
  all.grid = dims.empty() ? Grid::from_hosts(all.hosts) : Grid::from_dims(all.hosts, dims);
  std::vector<std::shared_ptr<PlanStore>> plans;
  for (std::size_t i = 0; i < members.size(); ++i) {
    all.me = static_cast<Rank>(i);
    plans.push_back(std::make_shared<PlanStore>(all, limits));
  }
  return plans;
}

inline std::vector<Communicator*> VirtualJob::create(CommId id, const std::vector<Rank>& members,
                                                     PlanLimits limits, const std::vector<Rank>& dims) {
  std::vector<std::shared_ptr<PlanStore>> plans = plans_of(members, limits, dims);
  std::vector<Communicator*> communicators;
  for (std::size_t i = 0; i < members.size(); ++i)
    communicators.push_back(&engine(members[i]).create(id, plans[i]));
  return communicators;
}

}  // namespace ddl::test
