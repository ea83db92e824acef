#include "core/plan/task_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/partition.hpp"
#include "core/plan/handover.hpp"
#include "core/plan/host_tree.hpp"
#include "core/plan/packed_planner.hpp"

namespace ddl {
namespace {

// From here on bytes cost more than messages.
constexpr Bytes kLeastDivided = 64 << 10;
// What passes several ranks on its way is cut at least so often, so that they work at once; likewise for each
// link of a chain of hosts. (1 MiB from one of two ranks to the other: 8 segments 73 us, one 110 us.) Not
// where ranks of a host take turns on its cores (4 ranks on two, whole and in 8: broadcast of 128 KiB 31 and
// 46 us, 256 KiB 55 and 61; gather of 64 KiB 27 and 43, 256 KiB 98 and 157, 512 KiB 204 and 299; of 4 MiB
// alike).
constexpr Bytes kStages = 8, kStagesOfLink = 32;
// And the messages of a chain are not shorter than that for it.
constexpr Bytes kLeastInChain = 32 << 10;

// What one rank stages for a segment, the rank that most falls to: parts of the size of a segment, in all,
// and blocks they lie in, for each lane.
struct Staged {
  Bytes segments = 0, blocks = 0;
};

Staged staged_by(const HostMap& map, const TaskChoice& choice) {
  if (map.smallest_shared() == 0) return {};
  if (choice.division == Division::packed) {
    const PackedStaging packed = packed_staging(map, choice.task.kind);
    return {static_cast<Bytes>(packed.blocks * packed.messages), static_cast<Bytes>(packed.messages)};
  }
  auto ranks = static_cast<Bytes>(map.ranks()), hosts = static_cast<Bytes>(map.hosts());
  auto mates = static_cast<Bytes>(map.largest()) - 1;
  bool agents = map.hosts() > 1 && choice.crossing == Crossing::by_agents;
  switch (choice.task.kind) {
    case Kind::all_gather: {
      Bytes passed_on = agents ? divide_up(ranks, static_cast<Bytes>(map.smallest_shared())) : 0;
      return {1 + passed_on, 1 + passed_on};
    }
    case Kind::reduce_scatter:
      return agents ? Staged{ranks - 1, ranks - 1} : Staged{mates, mates};
    case Kind::scatter:
    case Kind::all_to_all:
      return {mates, mates};
    case Kind::reduce:  // contributions on the way in and the result on its way to the root
      return choice.division == Division::whole ? Staged{1, 1} : Staged{2, 2 * (mates + 1)};
    case Kind::broadcast:
      return {1, choice.division == Division::whole ? 1 : std::max(hosts, mates + 2)};
    default:
      return {1, 1};
  }
}

void choose_lanes(TaskChoice& choice, Bytes bytes, const PlanLimits& limits) {
  if (limits.rails > 1 && bytes >= kLeastLane * limits.rails)
    choice.share = shares_of(rail_rates(limits));
  else
    choice.rail = {fastest_rail(limits)};
}

Bytes free_segment(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  Bytes whole = round_up(std::max<Bytes>(bytes, 1), kCacheLine);
  if (limits.segment) return std::clamp(limits.segment / kCacheLine * kCacheLine, kCacheLine, whole);
  if (map.ranks() == 1) return whole;  // one copy, if any
  Bytes blocks = 1;
  for (Rank rank : {task.root, (task.root + 1) % map.ranks()})
    blocks = std::max({blocks, static_cast<Bytes>(blocks_in(task, rank, map.ranks())),
                       static_cast<Bytes>(blocks_out(task, rank, map.ranks()))});
  Bytes most = std::max(kLeastCut, kSegmentOfAll / blocks);
  const bool is_cut_here = is_one_way(task.kind) && bytes > kMostWhole && !limits.machine.crowded;
  if (map.hosts() > 1 || is_cut_here) most = std::min(most, std::max(kLeastCut, whole / kStages));
  return std::min(whole, round_up(most, kCacheLine));
}

bool fit_shared_block(const HostMap& map, TaskChoice& choice, Bytes room) {
  if (map.smallest_shared() == 0) return true;
  Bytes block = room / kSharedBlocks / kCacheLine * kCacheLine;
  if (block < kBlockOverhead + kCacheLine) return false;
  choice.segment = std::min(choice.segment, block - kBlockOverhead);
  return true;
}

// The largest segment not above the one chosen that fits; false where even the least does not.
bool fit(const HostMap& map, TaskChoice& choice, Bytes room) {
  if (is_between_two(choice.task.kind)) return fit_shared_block(map, choice, room);
  constexpr Bytes kLeast = 2 << 10;
  Staged staged = staged_by(map, choice);
  if (staged.segments == 0) return true;
  for (; choice.window > 0; choice.window /= 2) {
    Bytes heads = (staged.blocks * choice.share.size() + 1) * kBlockOverhead;
    Bytes slot = room / static_cast<Bytes>(choice.window);
    if (slot <= heads) continue;
    Bytes segment = (slot - heads) / staged.segments / kCacheLine * kCacheLine;
    Bytes least = choice.window > 1 ? std::min(choice.segment, kLeast) : kCacheLine;
    if (choice.division == Division::packed) least = choice.segment;
    if (segment < least) continue;
    choice.segment = std::min(choice.segment, segment);
    return true;
  }
  return false;
}

TaskChoice chain_of(const HostMap& map, TaskChoice choice, Bytes bytes, const PlanLimits& limits) {
  choice.division = Division::chain;
  const auto links = static_cast<Bytes>(map.hosts()) - 1;
  if (links > 0 && !limits.segment)
    choice.segment =
        std::clamp(round_up(bytes / (kStagesOfLink * links), kCacheLine),
                   std::min(choice.segment, kLeastInChain * choice.share.size()), choice.segment);
  return choice;
}

// By the root alone, within a host: bytes are copied once and reduced, while the others stage the next ones.
// Where each rank reduces a piece, they are copied in, reduced, and most of them copied once more to the
// root, which has the longest way of all. What that saves grows with the ranks. (2 ranks, 64 KiB, 1 and 4
// MiB: 5.1, 53, 233 us, in pieces 7.2, 91, 507; 3 ranks on two cores, 4 MiB: 0.9 and 1.9 ms; 4 ranks, 256 KiB
// to 16 MiB: 0.5 to 1.5 of the time of pieces.)
TaskChoice reduced_by_root(TaskChoice choice, Bytes bytes, const PlanLimits& limits) {
  constexpr Bytes kLeast = 64 << 10, kMost = 128 << 10;  // a few of them fit the second level of a cache
  choice.division = Division::whole;
  if (!limits.segment)
    choice.segment = std::min(round_up(bytes, kCacheLine), std::clamp(bytes / kStages, kLeast, kMost));
  return choice;
}

// Of few hosts many trees are one.
bool is_same_tree(int hosts, int k, int other) {
  const HostTree one(hosts, 0, k), two(hosts, 0, other);
  for (int host = 0; host < hosts; ++host)
    if (one.children(host) != two.children(host)) return false;
  return true;
}

// All of a message in one segment.
std::vector<TaskChoice> one_by_one_or_packed(const HostMap& map, const TaskChoice& choice, Bytes bytes,
                                             const PlanLimits& limits) {
  std::vector<TaskChoice> all{choice};
  const auto ranks = static_cast<Bytes>(map.ranks());
  const Bytes longest =
      choice.task.kind == Kind::all_to_all ? ranks * static_cast<Bytes>(map.largest()) : ranks;
  if (choice.task.unequal || !can_be_packed(map, choice.task) || bytes > kSegmentOfAll / longest) return all;
  TaskChoice packed = choice;
  packed.division = Division::packed;
  packed.share = {1};
  packed.rail = {fastest_rail(limits)};
  packed.segment = round_up(std::max<Bytes>(bytes, 1), kCacheLine);
  packed.window = 1;
  for (int radix : {2, 4, 8}) {
    if (radix > 2 && (!has_root(choice.task.kind) || is_same_tree(map.hosts(), radix, packed.radix))) break;
    packed.radix = radix;
    all.push_back(packed);
  }
  return all;
}

// An all-gather or a reduce-scatter whose hosts carry unequally much, or may: a link of a chain carries no
// byte twice.
bool may_be_in_chain(const HostMap& map, Task task, Bytes bytes) {
  if (map.hosts() < 3 || bytes < kLeastDivided) return false;
  if (task.kind != Kind::all_gather && task.kind != Kind::reduce_scatter) return false;
  const auto ranks = static_cast<Bytes>(map.ranks()), hosts = static_cast<Bytes>(map.hosts());
  return task.unequal || static_cast<Bytes>(map.largest()) * hosts != ranks;
}

std::vector<TaskCandidate> by_prediction(const HostMap& map, const std::vector<TaskChoice>& all, Bytes bytes,
                                         const Machine& machine) {
  std::vector<TaskCandidate> found;
  for (const TaskChoice& choice : all) {
    found.push_back({choice, all.size() > 1 ? predict(map, choice, bytes, machine) : 0});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const TaskCandidate& a, const TaskCandidate& b) { return a.seconds < b.seconds; });
  return found;
}

// Without single copies, and without what memory says.
std::vector<TaskCandidate> staged_ways(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  constexpr Rank kFew = 3;  // of one host, see reduced_by_root()
  TaskChoice choice;
  choice.task = task;
  if (map.hosts() > 1) choose_lanes(choice, bytes, limits);
  choice.segment = free_segment(map, task, bytes, limits);
  if (!has_tree(task)) {
    std::vector<TaskChoice> many = one_by_one_or_packed(map, choice, bytes, limits);
    if (may_be_in_chain(map, task, bytes)) many.push_back(chain_of(map, choice, bytes, limits));
    return by_prediction(map, many, bytes, limits.machine);
  }
  std::vector<TaskChoice> all;
  if (bytes >= kLeastDivided) {
    all.push_back(chain_of(map, choice, bytes, limits));
    if (map.hosts() == 1 && task.kind == Kind::reduce) {
      const TaskCandidate in_pieces{all[0]}, by_root{reduced_by_root(choice, bytes, limits)};
      if (map.ranks() == 2) return {by_root};
      if (map.ranks() <= kFew) return {by_root, in_pieces};
      return {in_pieces, by_root};
    }
    if (map.hosts() == 1) all.clear();  // all read what the root has written once
    if (map.hosts() > 2 && task.kind == Kind::broadcast) {
      all.push_back(choice);
      all.back().division = Division::pieces;
    }
  }
  for (int radix : {2, 3, 4, 8}) {
    if (radix > 2 && is_same_tree(map.hosts(), radix, choice.radix)) break;
    choice.radix = radix;
    all.push_back(choice);
    if (choice.segment >= bytes || limits.segment || bytes > kSegmentOfAll) continue;
    all.push_back(choice);  // in one go
    all.back().segment = round_up(bytes, kCacheLine);
  }
  return by_prediction(map, all, bytes, limits.machine);
}

// The longest blocks of an all-to-all that take less time packed than one by one, and for whose class of
// sizes there is such a plan; 0: none do.
Bytes most_padded(const HostMap& map, Task equal, const PlanLimits& limits) {
  constexpr Bytes kMost = 16 << 10;
  Bytes most = 0;
  for (Bytes length = kLeastPadded; length <= kMost; length *= 2) {
    const TaskChoice best = staged_ways(map, equal, length + kPaddedHead, limits)[0].choice;
    const bool is_faster = best.division == Division::packed;
    if (!is_faster || !choose_packed(map, equal, size_class(length + kPaddedHead), limits)) break;
    most = length;
  }
  return most;
}

// Blocks of unequal length may be padded to one length, where blocks of that length can be packed. Of an
// all-gather the longest is known: it is tried where equal blocks would be. What pairs of ranks have for each
// other is not known: how long they are follows from the calls before.
std::vector<TaskCandidate> with_padding(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits,
                                        std::vector<TaskCandidate> found) {
  const bool is_pairwise = task.kind == Kind::all_to_all;
  if (!task.unequal || task.rooted != Rooted::no || (!is_pairwise && task.kind != Kind::all_gather))
    return found;
  task.unequal = false;
  if (is_pairwise) {
    found[0].choice.padded = most_padded(map, task, limits);
    return found;
  }
  const Bytes padded = size_class(bytes);
  const TaskCandidate one_by_one = found[0];
  const std::vector<TaskCandidate> others(found.begin() + 1, found.end());
  found.clear();
  for (TaskCandidate equal : staged_ways(map, task, padded, limits)) {
    const bool is_packed = equal.choice.division == Division::packed;
    if (is_packed && !fit(map, equal.choice, limits.staging)) continue;
    TaskCandidate& one = found.emplace_back(one_by_one);
    one.seconds = equal.seconds;
    one.choice.padded = is_packed ? bytes : 0;
  }
  found.insert(found.end(), others.begin(), others.end());
  return found;
}

// The ways worth a thought.
std::vector<TaskCandidate> ways(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  if (map.ranks() == 1) {
    TaskChoice alone;
    alone.task = task;
    alone.segment = free_segment(map, task, bytes, limits);
    return {{alone}};
  }
  return with_single_copies(map, task, bytes, limits,
                            with_padding(map, task, bytes, limits, staged_ways(map, task, bytes, limits)));
}

}  // namespace

// Large enough for several lanes between hosts, and within one for small calls to be made without an
// operation. Segments are full ones, whose first part goes over one rail: over several rails they must be
// short, or blocks of middling size are not cut. Within a host, who has the other copy at the same time does
// not wait for it where segments are long (2 ranks, MPI_Alltoallv of 512 KiB, 1 and 2 MiB in segments of 64
// and 256 KiB, us: 52 and 42, 111 and 89, 277 and 233; MPI_Gatherv of 64 KiB: 4.8 and 7.4).
Bytes pairwise_bytes(Rooted rooted, bool spans_hosts, RailId rails) {
  constexpr Bytes kBetweenHosts = 1 << 20, kOverRails = 256 << 10, kHere = 256 << 10, kOneWay = 64 << 10;
  if (!spans_hosts) return rooted == Rooted::no ? kHere : kOneWay;
  return rails > 1 ? kOverRails : kBetweenHosts;
}

bool takes_turns(const TaskChoice& choice) {
  const auto [least, most] = std::minmax_element(choice.share.begin(), choice.share.end());
  return choice.task.kind == Kind::all_to_all && choice.task.unequal && choice.share.size() > 1 &&
         *most < 2 * *least;
}

const char* division_name(Division division) {
  constexpr const char* names[] = {"whole", "pieces", "chain", "packed"};
  return names[static_cast<int>(division)];
}

Bytes staging_need(const HostMap& map, const TaskChoice& choice) {
  Staged staged = staged_by(map, choice);
  if (staged.segments == 0) return 0;
  if (is_between_two(choice.task.kind)) return kSharedBlocks * (choice.segment + kBlockOverhead);
  Bytes heads = (staged.blocks * choice.share.size() + 1) * kBlockOverhead;  // one more for the token
  return (staged.segments * choice.segment + heads) * static_cast<Bytes>(choice.window);
}

std::vector<TaskCandidate> task_candidates(const HostMap& map, Task task, Bytes bytes,
                                           const PlanLimits& limits) {
  std::vector<TaskCandidate> fitting;
  const std::vector<TaskCandidate> all = ways(map, task, bytes, limits);
  for (TaskCandidate one : all) {
    auto is_same = [&](const TaskCandidate& other) { return other.choice == one.choice; };
    if (fit(map, one.choice, limits.staging) && std::none_of(fitting.begin(), fitting.end(), is_same))
      fitting.push_back(std::move(one));
  }
  if (!fitting.empty()) return fitting;
  TaskChoice frugal = all[0].choice;
  frugal.crossing = Crossing::directly;
  frugal.division = Division::whole;
  frugal.share = {1};
  frugal.padded = 0;
  if (frugal.rail.empty()) frugal.rail = {0};
  if (fit(map, frugal, limits.staging)) return {{frugal}};
  throw Error(fmt::format("{} bytes of staging are too little for a {} among {} ranks", limits.staging,
                          name_of(task.kind), map.ranks()),
              "its ranks on one host exchange through shared memory", "raise DDL_STAGING_BYTES");
}

TaskChoice choose_task(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits) {
  return task_candidates(map, task, bytes, limits)[0].choice;
}

std::optional<TaskChoice> choose_packed(const HostMap& map, Task task, Bytes bytes,
                                        const PlanLimits& limits) {
  for (const TaskCandidate& one : task_candidates(map, task, bytes, limits))
    if (one.choice.division == Division::packed) return one.choice;
  return std::nullopt;
}

std::string describe(const HostMap& map, const TaskChoice& choice) {
  Kind kind = choice.task.kind;
  std::string text{name_of(kind)};
  bool divided = kind == Kind::broadcast || kind == Kind::reduce;
  const bool is_whole = choice.division == Division::whole, is_packed = choice.division == Division::packed;
  if (choice.division == Division::chain)
    text += " in a chain";
  else if (choice.division == Division::pieces)
    text += " in pieces";
  text += fmt::format(" over {} host{}", map.hosts(), map.hosts() > 1 ? "s" : "");
  if (is_packed) text += ", packed";
  if (((divided && is_whole) || (is_packed && has_root(kind))) && map.hosts() > 2)
    text += choice.radix < map.hosts() ? fmt::format(", tree of {}", choice.radix) : ", flat";
  bool crosses = kind == Kind::all_gather || kind == Kind::reduce_scatter;
  if (crosses && map.hosts() > 1 && choice.crossing == Crossing::directly) text += ", rank to rank";
  if (choice.handover == Handover::single_copy)
    text += choice.most_staged == kMostStaged ? ", single copy" : ", single copy of long blocks";
  if (choice.reduces_all) text += ", all of it on all ranks";
  if (choice.padded > 0) text += fmt::format(", blocks of up to {} bytes padded", choice.padded);
  if (choice.share.size() > 1) text += fmt::format(", {} lanes", choice.share.size());
  return text;
}

}  // namespace ddl
