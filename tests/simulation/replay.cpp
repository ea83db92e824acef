#include "replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <simgrid/kernel/Timer.hpp>

#include "core/base/error.hpp"

namespace ddl::simulation {

namespace s4u = simgrid::s4u;

constexpr Bytes kElement = 4;  // float32 gradients

Replay::Replay(Platform& platform, const std::vector<Plan>& plans, Bytes bytes, const WireFormat& wire)
    : platform_(platform), plans_(plans), wire_(wire), states_(plans.size()) {
  Elements count = bytes / kElement, segment = std::max<Elements>(1, plans[0].segment / kElement);
  segments_ = static_cast<std::uint32_t>(divide_up(count, segment));
  for (std::size_t rank = 0; rank < plans.size(); ++rank) prepare(static_cast<Rank>(rank), count);
}

void Replay::prepare(Rank rank, Elements count) {
  RankState& me = state(rank);
  Elements segment = std::max<Elements>(1, plan(rank).segment / kElement);
  if (segments_ > 1) me.full.compute(plan(rank), segment, kElement);
  if (segments_ > 0) me.tail.compute(plan(rank), count - (segments_ - 1) * segment, kElement);
  me.flow_of_expected.resize(plan(rank).expected.size());
  for (std::uint32_t f = 0; f < plan(rank).flows.size(); ++f) {
    const Flow& flow = plan(rank).flows[f];
    for (std::uint32_t s = flow.first; s < flow.first + flow.count; ++s) {
      const Step& step = plan(rank).steps[s];
      if (step.verb == Verb::send) continue;
      for (std::uint32_t i = 0; i < step.peers; ++i) me.flow_of_expected[step.expected + i] = f;
    }
  }
  me.runs.resize(static_cast<std::size_t>(plan(rank).window));
}

double Replay::run() {
  s4u::Activity::on_completion_cb([this](const s4u::Activity& activity) {
    auto at = under_way_.find(&activity);
    if (at == under_way_.end()) return;
    Message message = at->second;
    under_way_.erase(at);
    message.connection->under_way -= message.bytes;
    start(*message.connection);
    arrive(message);
    intrusive_ptr_release(const_cast<s4u::Activity*>(&activity));
  });
  for (std::size_t rank = 0; rank < states_.size(); ++rank)
    for (Run& run : states_[rank].runs) open(static_cast<Rank>(rank), run);
  s4u::Engine::get_instance()->run();
  if (finished_.size() < states_.size() && segments_ > 0)
    throw Error(
        fmt::format("{} of {} ranks wait for ever", states_.size() - finished_.size(), states_.size()),
        "their plans do not fit together");
  return end_;
}

void Replay::open(Rank rank, Run& run) {
  RankState& me = state(rank);
  if (me.opened == segments_) return;
  run.segment = me.opened++;
  run.open = true;
  run.flows_left = plan(rank).flows.size();
  run.counter.assign(plan(rank).flows.size(), 0);
  run.arrived.assign(plan(rank).expected.size(), false);
  std::erase_if(me.early, [&](const Message& message) {
    if (message.segment != run.segment) return false;
    run.arrived[message.expected] = true;
    return true;
  });
  // The last flow to end may open the next segment in this very place.
  std::uint32_t segment = run.segment;
  for (std::uint32_t flow = 0; flow < plan(rank).flows.size() && run.segment == segment; ++flow)
    advance(rank, run, flow);
}

void Replay::advance(Rank rank, Run& run, std::uint32_t flow) {
  const Flow& steps = plan(rank).flows[flow];
  std::uint32_t& counter = run.counter[flow];
  if (counter == steps.count) return;
  while (counter < steps.count && run_step(rank, run, plan(rank).steps[steps.first + counter])) ++counter;
  if (counter == steps.count && --run.flows_left == 0) close(rank, run);
}

void Replay::close(Rank rank, Run& run) {
  run.open = false;
  if (++state(rank).done == segments_) {
    finished_.push_back(rank);
    end_ = std::max({end_, s4u::Engine::get_clock(), state(rank).busy_until});
  }
  open(rank, run);
}

bool Replay::run_step(Rank rank, Run& run, const Step& step) {
  const RankState& me = state(rank);
  Range range = (run.segment + 1 == segments_ ? me.tail : me.full).of(step);
  if (range.count == 0) return true;
  if (step.verb == Verb::send) {
    const bool is_narrow = narrows(wire_, step.fabric);
    send(rank, run, step, static_cast<double>(is_narrow ? wire_.bytes(range.count) : range.count * kElement));
    return true;
  }
  for (std::uint32_t i = 0; i < step.peers; ++i)
    if (!run.arrived[step.expected + i]) return false;
  return true;
}

// A rank hands over its messages one after the other; from then on they share the links.
void Replay::send(Rank rank, const Run& run, const Step& step, double bytes) {
  RankState& me = state(rank);
  for (std::uint32_t i = 0; i < step.peers; ++i) {
    Rank peer = plan(rank).peers[step.peer + i];
    int expected = plan(peer).find_expected(step.tag, rank);
    if (expected < 0) throw Error(fmt::format("rank {} does not expect a message of rank {}", peer, rank));
    Connection& way = connection(rank, peer, step.fabric, step.rail);
    Message message{peer, run.segment, static_cast<std::uint32_t>(expected), bytes, &way};
    platform_.count(way.way, bytes);
    ++messages_;
    me.busy_until = std::max(me.busy_until, s4u::Engine::get_clock()) + platform_.cluster().message_cost;
    simgrid::kernel::timer::Timer::set(me.busy_until, [this, message] {
      message.connection->waiting.push_back(message);
      start(*message.connection);
    });
  }
}

Replay::Connection& Replay::connection(Rank from, Rank to, Fabric fabric, RailId rail) {
  std::uint64_t way = fabric == Fabric::wire ? rail + 1u : 0u;
  auto key = (static_cast<std::uint64_t>(from) << 24 | static_cast<std::uint64_t>(to)) << 16 | way;
  auto [at, fresh] = connections_.try_emplace(key);
  if (fresh) at->second.way = platform_.way(from, to, fabric, rail);
  return at->second;
}

void Replay::start(Connection& connection) {
  while (!connection.waiting.empty() && connection.under_way < platform_.cluster().connection_window) {
    const Message& message = connection.waiting.front();
    s4u::CommPtr comm = s4u::Comm::sendto_init(connection.way.from, connection.way.to);
    comm->set_payload_size(static_cast<std::uint64_t>(message.bytes));
    connection.under_way += message.bytes;
    under_way_.emplace(comm.get(), message);
    intrusive_ptr_add_ref(comm.get());  // until it has arrived
    comm->vetoable_start();
    connection.waiting.pop_front();
  }
}

void Replay::arrive(const Message& message) {
  for (Run& run : state(message.to).runs)
    if (run.open && run.segment == message.segment) {
      run.arrived[message.expected] = true;
      return advance(message.to, run, state(message.to).flow_of_expected[message.expected]);
    }
  state(message.to).early.push_back(message);
}

}  // namespace ddl::simulation
