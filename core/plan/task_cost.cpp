// What the cost model says of the ways of collectives that are no all-reduce.
#include <algorithm>

#include "core/base/partition.hpp"
#include "core/plan/host_tree.hpp"
#include "core/plan/task_choice.hpp"

namespace ddl {
namespace {

// What the last host of a tree waits. A host hands over to its children one after the other, and then all of
// these messages share its rails. Packed ones have the blocks of a subtree.
double along_tree(const HostMap& map, const TaskChoice& choice, Bytes bytes, const FabricCost& wire) {
  const HostTree tree(map.hosts(), 0, choice.radix);
  const double ranks = static_cast<double>(map.ranks()) / map.hosts();
  auto carried_to = [&](int child) {
    const double blocks = choice.division == Division::packed ? ranks * tree.subtree(child) : 1;
    return blocks * static_cast<double>(bytes) * wire.beta;
  };
  std::vector<double> reached(static_cast<std::size_t>(map.hosts()), 0);
  double last = 0;
  for (int host = 0; host < map.hosts(); ++host) {  // a parent has a smaller number
    double at = reached[static_cast<std::size_t>(host)];
    last = std::max(last, at);
    const std::vector<int> children = tree.children(host);
    double carried = 0;
    for (int child : children) carried += carried_to(child);
    for (int child : children) {
      at += wire.overhead;
      reached[static_cast<std::size_t>(child)] = at + wire.alpha + carried;
    }
  }
  return last;
}

Bytes segments_of(const TaskChoice& choice, Bytes bytes) {
  return divide_up(std::max<Bytes>(bytes, 1), choice.segment);
}

double predict_rooted(const HostMap& map, const TaskChoice& choice, Bytes bytes, const Machine& machine) {
  FabricCost wire = machine.wire;
  wire.beta /= static_cast<double>(choice.share.size());
  const double segments = static_cast<double>(segments_of(choice, bytes)), hosts = map.hosts();
  const Bytes segment = std::min(bytes, choice.segment);
  const double carried = static_cast<double>(segment) * wire.beta;
  if (choice.division == Division::whole) {
    const double first = along_tree(map, choice, segment, wire);
    const auto children = static_cast<double>(HostTree(map.hosts(), 0, choice.radix).children(0).size());
    // Calls follow each other: what keeps the root busy delays the next one.
    return first + (segments - 0.5) * children * (carried + wire.overhead);
  }
  if (choice.division == Division::chain)
    return (segments + hosts - 2) * (carried + wire.overhead) + (hosts - 1) * wire.alpha;
  return (segments + 1) * carried * machine.incast * machine.turnover +
         segments * (hosts - 1) * wire.overhead + 2 * wire.alpha;
}

// Of an all-gather or a reduce-scatter, so many blocks cross the busiest link. Who has few ranks needs the
// most; without a chain, who has many sends theirs to each host. Of blocks of unequal length the longest is
// known: without a chain it may as well have been all of them, a chain carries the others only once. They are
// taken for half as long.
double busiest(const HostMap& map, const TaskChoice& choice) {
  const bool is_chain = choice.division == Division::chain;
  Rank most = 0;
  for (int host = 0; host < map.hosts(); ++host) {
    const auto own = static_cast<Rank>(map.members(host).size());
    most = std::max(most, map.ranks() - own);
    if (!is_chain) most = std::max(most, own * (map.hosts() - 1));
  }
  return is_chain && choice.task.unequal ? 0.5 * (most + map.largest()) : most;
}

// Kinds with many blocks. Where hosts share processors, these have all messages to do.
double predict_blocks(const HostMap& map, const TaskChoice& choice, Bytes bytes, const Machine& machine) {
  const FabricCost& wire = machine.wire;
  const double hosts = map.hosts(), ranks = map.ranks(), mates = ranks / hosts, away = ranks - mates;
  const double carried = static_cast<double>(bytes) * wire.beta / static_cast<double>(choice.share.size());
  const double steps = HostTree(map.hosts(), 0, 2).rounds();
  const bool is_packed = choice.division == Division::packed,
             exchanges = choice.task.kind == Kind::all_to_all;
  double seconds = 0, messages = 0;  // the latter: between hosts, of all ranks
  if (has_root(choice.task.kind)) {
    messages = is_packed ? hosts - 1 : away;
    seconds = is_packed ? along_tree(map, choice, bytes, wire)
                        : wire.alpha + away * (wire.overhead + machine.incast * carried);
  } else if (is_packed) {
    messages = hosts * steps;
    seconds = steps * (wire.alpha + wire.overhead) +
              (exchanges ? steps * hosts / 2 * mates * mates : away) * carried;
  } else {
    const double each = exchanges ? away : hosts - 1;
    messages = ranks * each;
    seconds = wire.alpha + each * wire.overhead + (exchanges ? mates * away : busiest(map, choice)) * carried;
    if (choice.division == Division::chain)
      seconds += (hosts - 2) *
                 (wire.alpha + wire.overhead + carried / static_cast<double>(segments_of(choice, bytes)));
    // What an agent passes on, and its mates take.
    if (!exchanges && mates > 1)
      seconds +=
          machine.local.overhead * (machine.inside == Inside::links ? away / mates * (mates - 1) : away);
  }
  if (is_packed && mates > 1) seconds += 2 * machine.local.alpha;
  if (machine.shared_cores > 0) seconds = std::max(seconds, messages * machine.turn / machine.shared_cores);
  return seconds;
}

}  // namespace

double crossings(const HostMap& map, const TaskChoice& choice) {
  const Kind kind = choice.task.kind;
  if (choice.task.unequal || choice.division == Division::packed) return 0;
  if (has_tree(choice.task))
    return choice.division == Division::whole
               ? static_cast<double>(HostTree(map.hosts(), 0, choice.radix).children(0).size())
               : 1;
  if (kind != Kind::all_gather && kind != Kind::reduce_scatter && kind != Kind::all_to_all) return 0;
  const bool once_for_a_host = choice.division == Division::chain || choice.crossing == Crossing::by_agents;
  if (once_for_a_host && kind != Kind::all_to_all) return busiest(map, choice);
  double most = 0;
  for (int host = 0; host < map.hosts(); ++host) {
    const auto own = static_cast<double>(map.members(host).size());
    most = std::max(most, own * (map.ranks() - own));
  }
  return most;
}

double predict(const HostMap& map, const TaskChoice& choice, Bytes bytes, const Machine& machine) {
  return has_tree(choice.task) ? predict_rooted(map, choice, bytes, machine)
                               : predict_blocks(map, choice, bytes, machine);
}

}  // namespace ddl
