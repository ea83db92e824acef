// A job of which only some ranks have an engine. What the others say to rank 0 is recorded in a job where all
// have one, and said again, true or not, to another rank 0.
//
// One rule: the job outlives what its engines were given. Thread safety: none; the helper threads of the
// engines are their own business.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/collective/engine.hpp"
#include "core/transport/loopback.hpp"

namespace ddl::test {

/// What rank 0 was told.
struct Said {
  Rank by = 0;  // rank in the job
  Header header{};
  std::vector<std::byte> payload = {};
};

class HostileJob {
 public:
  static constexpr Bytes kStaging = 1 << 20;

  /// `wire`: how rank 0 reaches other hosts; null: over loopback, like all others.
  explicit HostileJob(std::vector<HostIndex> hosts, Transport* wire = nullptr);

  Rank size() const { return static_cast<Rank>(hosts_.size()); }
  Engine& engine(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)].engine; }
  /// Gives that rank an engine and a communicator of all ranks, of one identity.
  Communicator& create(Rank rank, PlanLimits limits);
  /// What rank 0 has heard so far; only while nothing is under way.
  const std::vector<Said>& heard() const { return heard_; }
  /// Says it to rank 0 in the name of its speaker; false: no room now.
  bool say(const Said& said);
  /// The same by hand, for a rank of this host: stage() writes the payload to a block of the speaker's and
  /// tells its offset, post() puts a descriptor of it, or of anything else, before rank 0. Not to be mixed
  /// with say().
  Bytes stage(const Said& said);
  void post(const Said& said, Bytes block);
  /// Those without an engine release what they were told, and remember its headers.
  void listen();
  const std::vector<Header>& told() const { return told_; }
  /// On the host of rank 0, that one among them.
  int ranks_beside_it() const {
    return static_cast<int>(std::count(hosts_.begin(), hosts_.end(), hosts_[0]));
  }
  bool is_near(Rank rank) const { return hosts_[static_cast<std::size_t>(rank)] == hosts_[0]; }
  Region& region(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)].region; }

 private:
  struct Tap : MessageHandler {
    Tap(MessageHandler& to, HostileJob& job) : to_(to), job_(job) {}
    void deliver(const Header& header, const View& view) override {
      const auto* data = static_cast<const std::byte*>(view.data());
      job_.heard_.push_back({header.from, header, {data, data + view.bytes()}});
      job_.heard_.back().header.turn = 0;
      to_.deliver(header, view);
    }
    std::byte* place_for(const Header& header) override { return to_.place_for(header); }
    void peer_failed(Rank peer, const std::string& why) override { to_.peer_failed(peer, why); }
    MessageHandler& to_;
    HostileJob& job_;
  };
  template <class Base>
  struct Tapped : Base {
    template <class... Args>
    explicit Tapped(HostileJob* job, Args&&... args) : Base(std::forward<Args>(args)...), job_(job) {}
    bool progress(MessageHandler& handler) override {
      if (!job_) return Base::progress(handler);
      Tap tap(handler, *job_);
      return Base::progress(tap);
    }
    HostileJob* job_;  // null: not rank 0
  };
  struct Ear : MessageHandler {
    explicit Ear(std::vector<Header>& told) : told_(told) {}
    void deliver(const Header& header, const View& view) override {
      told_.push_back(header);
      View(view).release();
    }
    void peer_failed(Rank, const std::string&) override {}
    std::vector<Header>& told_;
  };
  struct PerRank {
    std::shared_ptr<Region> region;
    std::unique_ptr<Tapped<SharedMemoryTransport>> local;
    std::unique_ptr<Tapped<LoopbackTransport>> wire;
    std::unique_ptr<Engine> engine;
    std::uint32_t posted = 0;  // descriptors put before rank 0 by post()
    Bytes staged = 0;          // bytes of blocks made by stage()
  };

  std::vector<HostIndex> hosts_;
  Transport* wire_;
  LoopbackNet net_;
  std::vector<Said> heard_;
  std::vector<Header> told_;
  std::vector<PerRank> ranks_;
};

inline HostileJob::HostileJob(std::vector<HostIndex> hosts, Transport* wire)
    : hosts_(std::move(hosts)), wire_(wire), net_(static_cast<Rank>(hosts_.size())), ranks_(hosts_.size()) {
  std::vector<std::vector<LocalPeer>> peers(hosts_.size());  // by host
  for (Rank rank = 0; rank < size(); ++rank) {
    auto host = hosts_[static_cast<std::size_t>(rank)];
    auto here = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host));
    auto& region = ranks_[static_cast<std::size_t>(rank)].region;
    region = std::make_shared<Region>(Region::create(here, StagingPool::region_bytes(kStaging), 1));
    peers[static_cast<std::size_t>(host)].push_back({rank, region});
  }
  for (Rank rank = 0; rank < size(); ++rank) {
    const auto& here = peers[static_cast<std::size_t>(hosts_[static_cast<std::size_t>(rank)])];
    int me = 0;
    while (here[static_cast<std::size_t>(me)].rank != rank) ++me;
    HostileJob* tapped = rank == 0 ? this : nullptr;
    PerRank& one = ranks_[static_cast<std::size_t>(rank)];
    one.local = std::make_unique<Tapped<SharedMemoryTransport>>(tapped, here, me, kStaging);
    one.wire = std::make_unique<Tapped<LoopbackTransport>>(tapped, net_, rank);
  }
}

inline Communicator& HostileJob::create(Rank rank, PlanLimits limits) {
  PerRank& one = ranks_[static_cast<std::size_t>(rank)];
  Waiting waiting;
  waiting.for_the_other = 0;  // which call it is nobody shows
  Transport* wire = rank == 0 && wire_ ? wire_ : one.wire.get();
  one.engine = std::make_unique<Engine>(Fabrics{one.local.get(), wire}, waiting);
  std::vector<Rank> all(hosts_.size());
  std::iota(all.begin(), all.end(), 0);
  Members members{all, rank, hosts_, Grid::from_hosts(hosts_)};
  return one.engine->create(77, std::make_shared<PlanStore>(members, limits));
}

inline bool HostileJob::say(const Said& said) {
  if (!is_near(said.by)) {
    net_.put(0, {said.header, said.payload});
    return true;
  }
  const Rank to[] = {0};
  Outgoing message{said.header, said.payload, to};
  return ranks_[static_cast<std::size_t>(said.by)].local->send(message);
}

inline Bytes HostileJob::stage(const Said& said) {
  PerRank& speaker = ranks_[static_cast<std::size_t>(said.by)];
  Bytes block = Region::staging_offset(ranks_beside_it()) + speaker.staged;
  speaker.staged += StagingPool::block_bytes(said.payload.size());
  StagingPool::readers_of(speaker.region->at(block)).store(1);
  std::copy(said.payload.begin(), said.payload.end(), StagingPool::payload_of(speaker.region->at(block)));
  return block;
}

inline void HostileJob::post(const Said& said, Bytes block) {
  auto local = std::count(hosts_.begin(), hosts_.begin() + said.by, hosts_[0]);
  std::uint32_t& posted = ranks_[static_cast<std::size_t>(said.by)].posted;
  const int here = ranks_beside_it();
  Descriptor& entry =
      region(0).mailbox(static_cast<int>(local), here).entry(posted, Mailbox::entry_bytes(here));
  std::memcpy(&entry.header, &said.header, offsetof(Header, turn));
  if (said.header.bytes > View::kInline)
    entry.block = block;
  else
    std::copy(said.payload.begin(), said.payload.end(), entry.payload);
  entry.turn().store(++posted, std::memory_order_release);
}

inline void HostileJob::listen() {
  Ear ear(told_);
  for (PerRank& rank : ranks_) {
    if (rank.engine) continue;
    rank.local->progress(ear);
    rank.wire->progress(ear);
  }
}

}  // namespace ddl::test
