// Executes the plans of all ranks in virtual time: the same values that the engine executes on real buffers,
// with the engine's rules (core/collective/operation.hpp): flows are independent, the steps of a flow are
// done in order, `window` segments are open at once, an empty slice needs no message.
//
// From one rank to another over one way messages follow each other as on a connection: the next one starts
// when less than Cluster::connection_window bytes are on their way. Connections share the links they meet on
// equally.
//
// What is left out: reducing and copying take no time, and a rank's buffers for early messages never fill up.
// Nothing here is an actor: SimGrid tells when a message has arrived, and the flow that waited for it goes
// on.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/reduce/reduce.hpp"
#include "platform.hpp"

namespace ddl::simulation {

class Replay {
 public:
  /// plans[r] is rank r's; both must outlive the replay. Between hosts elements travel like that.
  Replay(Platform& platform, const std::vector<Plan>& plans, Bytes bytes, const WireFormat& wire = {});

  /// Runs to the end; seconds of virtual time. Error when a rank waits for ever.
  double run();
  /// Ranks in the order in which they finished.
  const std::vector<Rank>& finished() const { return finished_; }
  std::uint64_t messages() const { return messages_; }

 private:
  struct Run {  // one segment under way on one rank
    std::uint32_t segment = 0;
    bool open = false;
    std::size_t flows_left = 0;
    std::vector<std::uint32_t> counter;  // per flow: steps done
    std::vector<bool> arrived;           // per expected message
  };
  struct Connection;
  struct Message {
    Rank to;
    std::uint32_t segment;
    std::uint32_t expected;  // position in the receiver's Plan::expected
    double bytes;
    Connection* connection;
  };
  struct Connection {
    Way way;
    double under_way = 0;  // bytes
    std::deque<Message> waiting;
  };
  struct RankState {
    SliceTable full, tail;
    std::vector<std::uint32_t> flow_of_expected;
    std::vector<Run> runs;
    std::uint32_t opened = 0, done = 0;
    double busy_until = 0;
    std::vector<Message> early;
  };

  void prepare(Rank rank, Elements count);
  void open(Rank rank, Run& run);
  void advance(Rank rank, Run& run, std::uint32_t flow);
  void close(Rank rank, Run& run);
  bool run_step(Rank rank, Run& run, const Step& step);
  void send(Rank rank, const Run& run, const Step& step, double bytes);
  void start(Connection& connection);
  Connection& connection(Rank from, Rank to, Fabric fabric, RailId rail);
  void arrive(const Message& message);
  RankState& state(Rank rank) { return states_[static_cast<std::size_t>(rank)]; }
  const Plan& plan(Rank rank) const { return plans_[static_cast<std::size_t>(rank)]; }

  Platform& platform_;
  const std::vector<Plan>& plans_;
  const WireFormat wire_;
  std::uint32_t segments_;
  std::vector<RankState> states_;
  std::vector<Rank> finished_;
  double end_ = 0;
  std::uint64_t messages_ = 0;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::unordered_map<const simgrid::s4u::Activity*, Message> under_way_;
};

}  // namespace ddl::simulation
