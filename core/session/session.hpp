// Session: this process's part in a job, from its card to its last collective. The only object that knows all of
// bootstrap, transports and engine.
//
// Life: announce (before MPI_Init) → meet (after it) → exchange, by whoever drives it, what each rank reaches
// → connect → agree that all ranks connected → communicators and calls → close. Every step before the
// agreement may fail; then the whole job uses the original library.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/card.hpp"
#include "core/collective/engine.hpp"
#include "core/trace/counters.hpp"
#include "core/transport/rail_check.hpp"
#include "core/transport/wire.hpp"
#include "core/tune/selection.hpp"

namespace ddl {

/// A call under way, with host copies of its buffers where these are device memory.
struct SessionCall : Completion {
  Call asked{};
  std::vector<std::byte> staged;
};

class Session {
 public:
  /// Publishes this rank's card. `trouble`: why this rank cannot take part, "" when it can. `progress_hook`:
  /// the MPI library can call us from its waits.
  Session(std::unique_ptr<Bootstrap> bootstrap, const Env& env, const std::string& trouble, bool progress_hook);
  ~Session();

  /// Reads all cards, attaches what they name on this host and tries the rails to others. Returns what is in
  /// the way on this rank, "" when all is well. `speaks`: from now on this process's lines name its rank
  /// here.
  std::string meet(bool speaks = true);
  /// After meet(): which lanes carry bytes, as far as this rank has tried, for all ranks to know. Never 0.
  std::uint64_t reach() const { return reach_; }
  /// With what all ranks reach, in their order, 0 from those in trouble: connects over the lanes that reach
  /// everybody. Returns what is in the way on this rank, "" when all is well; what all ranks find in the way
  /// is the census's trouble. `guest` moves the original library while a rank waits.
  std::string connect(std::span<const std::uint64_t> reach_of_rank, std::function<void()> guest);

  Rank rank() const { return bootstrap_->rank(); }
  Rank size() const { return bootstrap_->size(); }
  const Census& census() const { return census_; }
  Engine& engine() { return *engine_; }
  bool is_connected() const { return engine_ != nullptr; }
  Counters& counters() { return counters_; }
  const Env& env() const { return env_; }

  /// The plans of these ranks, in this order; the same ones as long as anybody has them, and a while longer.
  std::shared_ptr<PlanStore> plans_of(const std::vector<Rank>& members, Rank me);
  /// Which way the calls of a communicator take.
  std::unique_ptr<Selection> make_selection(Communicator& communicator);
  /// An identity no other communicator of the job has.
  CommId fresh_id() { return (static_cast<CommId>(rank()) + 1) << 32 | ++created_; }

  /// A blocking call by that plan, on the host or on a device. Error when a device copy fails.
  void run(Communicator& communicator, const Call& asked, PreparedPlan& plan, Observed* observed);
  /// Starts a call, which is advanced while the program computes; finish() it when it is done. Error when a
  /// device copy fails.
  Started start(SessionCall& call, Communicator& communicator, const Call& asked, PreparedPlan& plan);
  /// Brings results back to the device. Error when that fails.
  void finish(SessionCall& call);

  /// This rank's part of the report, and the report made of all parts.
  std::string report_part();
  std::string report(const std::vector<std::string>& parts) const;

 private:
  Card make_card(const std::string& trouble, bool progress_hook);
  void open_rails(Card& card);
  std::string attach_local(const std::vector<Card>& cards);
  void try_rails();
  void choose_lanes(std::span<const std::uint64_t> reach_of_rank);
  void connect_wire(const std::vector<Card>& cards);
  PlanLimits limits() const;
  void set_up_tuning(const std::vector<Card>& cards);
  void save_tuning() const;

  std::unique_ptr<Bootstrap> bootstrap_;
  Env env_;
  std::shared_ptr<Region> region_;
  std::unique_ptr<RailDoors> doors_;       // until all have knocked
  std::vector<Card> cards_;                // from meet() to connect()
  std::vector<std::string> lane_trouble_;  // what this rank found
  std::uint64_t reach_ = 0;
  std::unique_ptr<WireTransport> wire_;
  std::unique_ptr<SharedMemoryTransport> local_;
  std::unique_ptr<Engine> engine_;
  Census census_;
  TuneSettings tune_;
  std::string cache_trouble_;  // why rank 0 cannot read the tuning cache
  std::unique_ptr<TuneMemory> memory_;
  Counters counters_;
  std::vector<Bytes> predicted_;  // bytes per lane that the plans of the calls so far hand to the wire
  std::mutex stores_mutex_;
  std::deque<std::shared_ptr<PlanStore>> stores_;  // those used last
  std::atomic<std::uint32_t> created_{0};
};

}  // namespace ddl
