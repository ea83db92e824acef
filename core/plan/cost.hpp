// The cost model: what a choice would take on a machine. Pure, microseconds, the same on all ranks.
//
// A segment goes through its stages one after the other: down the dimensions with a reduce-scatter each, up
// again with an all-gather each. A stage of dimension d, whose groups have p members and whose pieces have n
// bytes, costs for instance as a ring
//
//   (p-1) (alpha + s o)  +  s n (p-1)/p beta  +  n (p-1)/p gamma
//
// where s is the number of ranks of a host that use the fabric at the same time: the groups of a host share
// its NICs. Several segments are under way at once and keep wire and cores busy together, so that for S
// segments
//
//   T = t + (S - 1) max(wire time, core time, t / window)        t: all stages of one segment
//
// which is the sum of all stages for one segment and the busiest fabric for many. Messages are those of one
// rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/types.hpp"

namespace ddl {

class Grid;
struct PlanChoice;
enum class Algorithm : std::uint8_t;

struct FabricCost {
  double alpha;     // seconds a step takes however short it is
  double overhead;  // seconds per message of a step, sent and received
  double beta;      // seconds per byte
};

/// What the ranks of a host exchange through.
enum class Inside : std::uint8_t {
  memory,  // shared: a message to many is written once, and what the reader does is part of its adding
  links,   // of GPUs: every copy passes a link of its sender and one of its receiver
};

/// A machine in numbers. The defaults are of a host of a few cores and Ethernet of 1 Gbit/s, which is where
/// choosing wrongly costs most; what is known better replaces them.
struct Machine {
  // Through staging memory that stays in the shared cache: one copy in, read by all. From 2 ranks: a step is
  // a message and its discovery, exchange takes 1.3, 2.05, 3.4 us for 4, 8, 16 KiB, cutting 1.35, 2.1, 3.0, and
  // 16 MiB 2.05 ms.
  FabricCost local = {0.5e-6, 0.1e-6, 0.072e-9};
  Inside inside = Inside::memory;
  // TCP at 1 Gbit/s: a step includes two passes through the kernel, a message costs its two ends about 6 us
  // of a processor; 119.5 MB/s of payload.
  FabricCost wire = {18e-6, 6e-6, 8.37e-9};
  // Seconds a rail takes per message: with TCP the messages of a host pass its kernel one after the other; a
  // NIC that the ranks reach past the kernel takes next to none.
  double rail_overhead = 2e-6;
  double gamma = 0.1e-9;      // seconds per byte read and added
  double wire_copy = 0.3e-9;  // seconds of a core per byte sent between hosts and received
  // What algorithms lose on the wire against a ring, whose streams never stop: many senders to one receiver
  // at once, and partners that change from step to step.
  double incast = 1.06, turnover = 1.03;
  double cores = 0;  // of a host; 0: one for each rank
  // Hosts that share a kernel (containers, virtual networks), whose ranks take turns on its processors: how
  // many of these there are; 0: no such hosts. A message between hosts then takes seconds of one of them
  // until its reader runs, one within a host half as many; ranks of a host that hear from others at the same
  // time do so in one turn, each but one in a quarter more. Meanwhile the rails carry (4 hosts x 2 on two
  // cores, in a loop: 256 bytes by funnel 91 us, doubling 115, halving 183 to 209, direct 250 to 268; 64 KiB by
  // all that cut 826 to 837; on faster ones, after a barrier: 8 B to 1 KiB to owners in each host and among
  // the hosts 53 to 57 us, cut among the ranks of a host before 76 to 85).
  double shared_cores = 0, turn = 20e-6, beside = 0.25;
  bool crowded = false;           // the ranks of one of the hosts outnumber its cores
  double memory_ranks = 0;        // ranks of a host that can copy at full speed at once; 0: all
  std::vector<double> rail_rate;  // bytes per second of each rail; empty: 1 / wire.beta
};

/// The machine whose rails are rated at these Gbit/s; where one of them is 0, unknown, all stay as assumed.
/// Latencies stay: over sockets they are those of the kernel.
Machine machine_over(const std::vector<double>& gbit);

/// One verb on one dimension, all lanes together.
struct StageCost {
  std::string verb;  // "reduce-scatter", "all-gather", "all-reduce", "reduce", "broadcast"
  int dimension = 0;
  Algorithm algorithm{};
  double messages = 0;  // that a rank sends, over all segments
  Bytes bytes = 0;      // that a rank sends, as they travel
  double seconds = 0;   // if it ran by itself; stages overlap
};

struct Prediction {
  double seconds = 0;
  double segments = 1;
  std::vector<StageCost> stages;  // in the order of the first lane
};

Prediction predict(const Grid& grid, const PlanChoice& choice, Bytes bytes, const Machine& machine);

/// Whole weights for lanes in proportion to these rates, of 16 to 32 parts in all: fine enough for rails to
/// finish within a few percent of each other, coarse enough for cuts to stay at cache lines.
std::vector<std::uint32_t> shares_of(const std::vector<double>& rates);

}  // namespace ddl
