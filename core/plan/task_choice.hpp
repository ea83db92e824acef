// TaskChoice: everything that the plan of a collective other than all-reduce depends on besides the machine
// and the rank. A cost model ranks the ways where there are several.
//
// Pure, and the same on all ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/choice.hpp"
#include "core/plan/host_map.hpp"
#include "core/plan/kind.hpp"
#include "core/plan/plan.hpp"

namespace ddl {

/// How what many ranks of a host need, or have, crosses to other hosts.
enum class Crossing : std::uint8_t {
  by_agents,  // once: one of them passes it on, or reduces first
  directly,   // to and from each of them; takes less staging
};

/// How a slice is treated.
enum class Division : std::uint8_t {
  whole,   // broadcast, reduce: few messages, over a tree of hosts; other kinds: each block by itself
  pieces,  // broadcast: a piece per host, which passes it on to the others; reduce: as in a chain
  chain,   // from host to host, a piece by each of their ranks; like pieces, a link carries no byte twice
  packed,  // of the kinds with many blocks: many of them in one message, see packed_planner.hpp
};

/// How what is only moved passes from one rank to another of its host.
enum class Handover : std::uint8_t {
  staged,       // through a block, by a copy in and one out, at the same time
  single_copy,  // who receives it reads it where it is; only where PlanLimits::single_copy
};

/// Sends between two ranks share that many blocks of staging, all the sends of a rank together: any number of
/// them may be under way at once.
inline constexpr Bytes kSharedBlocks = 16;

/// What a block of a pairwise call that is padded begins with, see collective/padded_call.hpp.
inline constexpr Bytes kPaddedHead = 16;
/// The least such block, without its head.
inline constexpr Bytes kLeastPadded = 256;

struct TaskChoice {
  Task task;
  Crossing crossing = Crossing::by_agents;
  Division division = Division::whole;
  int radix = 2;                           // of the tree of hosts: k, see HostTree
  std::vector<std::uint32_t> share = {1};  // see PlanChoice
  std::vector<RailId> rail;
  Bytes segment = 0;  // of each block
  int window = 4;
  Handover handover = Handover::staged;
  Bytes most_staged = kMostStaged;  // see Plan::most_staged
  // Blocks of unequal length of at most so many bytes may travel in a call whose blocks are all alike, and
  // the others by this plan, see collective/padded_call.hpp; 0: none do.
  Bytes padded = 0;
  // 0, or kOtherLanes; see takes_turns().
  int shift = 0;
  // Of a reduce-scatter: all ranks reduce all of it, see collective/reduce_all.hpp.
  bool reduces_all = false;
  /// Whether a call is made of others.
  bool has_parts() const { return padded > 0 || reduces_all; }
  TaskChoice by_itself() const {
    TaskChoice same = *this;
    same.padded = 0;
    same.reduces_all = false;
    return same;
  }
  friend bool operator==(const TaskChoice&, const TaskChoice&) = default;
};

/// Whether blocks shorter than a lane's part of a segment, each of which goes over one lane, go over the
/// first for some pairs of ranks and over the last for others, and in every second call or so the other way
/// round: the nine that leave the last host of 2 + 1 + 3 ranks are four and five (16 KiB, two rails of
/// 1 Gbit/s: 692 us, in turns 628). Not where a lane is much slower.
bool takes_turns(const TaskChoice& choice);
inline constexpr int kOtherLanes = 1;

/// For blocks of that many bytes. Error where the staging is too little for any way.
TaskChoice choose_task(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits);

struct TaskCandidate {
  TaskChoice choice;
  double seconds = 0;  // predicted; 0 where there is nothing to choose from
};

/// The way of blocks that are padded to that length; nothing where these cannot be packed.
std::optional<TaskChoice> choose_packed(const HostMap& map, Task task, Bytes bytes, const PlanLimits& limits);

/// A handful of choices for such blocks, the one predicted to be the fastest first; no two make the same
/// plan. The first is choose_task(); but for the root they are the same for all roots. Error likewise.
std::vector<TaskCandidate> task_candidates(const HostMap& map, Task task, Bytes bytes,
                                           const PlanLimits& limits);

/// One plan serves all all-to-alls of which only pairs of ranks know the lengths: that of blocks so long.
/// `rooted` tells which kind of them it is.
Bytes pairwise_bytes(Rooted rooted, bool spans_hosts, RailId rails);

/// Whether it goes along a tree of hosts.
inline bool has_tree(Task task) { return task.kind == Kind::broadcast || task.kind == Kind::reduce; }

/// How often the bytes of a block pass the busiest link between hosts; 0: it depends on what nobody knows, or
/// does not tell how fast that link is.
double crossings(const HostMap& map, const TaskChoice& choice);

/// Seconds, of one that is no send or receive.
double predict(const HostMap& map, const TaskChoice& choice, Bytes bytes, const Machine& machine);

inline constexpr int kDivisions = 4;
const char* division_name(Division division);

/// The choice in words: "broadcast in pieces over 4 hosts, 2 lanes".
std::string describe(const HostMap& map, const TaskChoice& choice);

/// Staging that the plan of any rank takes at most.
Bytes staging_need(const HostMap& map, const TaskChoice& choice);

}  // namespace ddl
