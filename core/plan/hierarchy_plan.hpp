// HierarchyPlan: an all-reduce of device memory as a list of calls on smaller communicators, one of each
// rank's group per dimension: reduce-scatter in dimension 0, 1, ..., all-reduce in the last, all-gather back.
// They are NCCL's; the last one may be the engine's, staged by the host over its rails. Everything happens in
// the program's output buffer; there is no scratch memory on the device.
//
// Each dimension has a stream of its own, and the buffer is cut into segments, so that while one segment is
// between the hosts the next is inside them. (Streams that each took a share of the buffer through all
// dimensions would move in step, all inside the hosts and then all between them.)
//
// Invariants: all ranks have the same steps in the same order, with other shares of the same ranges. A step
// needs what stands before it on its stream and the step `after`. Each element is summed by one group in each
// dimension and then copied, so all ranks have the same bits. What does not divide is the tail, which belongs
// to an all-reduce of all ranks; it has less than 16 bytes per rank.
//
// Values and pure functions; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/partition.hpp"
#include "core/plan/grid.hpp"

namespace ddl {

/// One dimension as one rank sees it: its group there.
struct HierarchyDimension {
  Rank extent = 1;
  Rank first = 0;  // of the ranks in the group: a name for it
  Rank place = 0;  // of this rank in the group
  friend bool operator==(const HierarchyDimension&, const HierarchyDimension&) = default;
};
using HierarchyLayout = std::vector<HierarchyDimension>;
/// A grid of more than these is left to NCCL.
inline constexpr int kMostHierarchyDimensions = 8;

/// How an all-reduce is done: by NCCL as it was called, by steps that are all NCCL's, or with the engine's
/// rails in the last dimension.
enum class HierarchyRoute : std::uint8_t { whole, nccl, rails };

/// Whether the rails can be the last dimension that joins anything: no two ranks of a group share a host.
bool rails_can_be_last(const Grid& grid);
/// Why the ranks of that grid are left to NCCL as a whole; "" when a plan makes sense.
std::string why_no_hierarchy(const Grid& grid, bool by_rails);
/// Of a grid that has a plan; dimensions that join nothing are left out.
HierarchyLayout hierarchy_layout(const Grid& grid, Rank rank);

struct HierarchyCut {
  Bytes segment = Bytes{4} << 20;  // of the buffer; on rails: of what a rank has in the last dimension
  Bytes least = Bytes{1} << 20;    // of a call; below it a flat all-reduce has less latency
  std::uint64_t most_segments = 32;

  /// `segment`: 0 leaves the choice to us.
  static HierarchyCut with_segment(Bytes segment);
};

enum class HierarchyVerb : std::uint8_t { reduce_scatter, all_reduce, all_gather };

struct HierarchyStep {
  HierarchyVerb verb = HierarchyVerb::all_reduce;
  std::size_t dimension = 0;
  Range whole;               // what the group works on together, in elements of the buffer
  Range mine;                // this rank's share of it; of an all-reduce all of it
  bool reads_input = false;  // else the output buffer
  bool on_rails = false;
  std::optional<std::size_t> after;  // a step on another stream that must be finished
};

struct HierarchyPlan {
  std::vector<HierarchyStep> steps;  // in the order in which they are enqueued
  Range tail;
};

/// Whether a call is large enough for the routes that have steps.
bool is_worth_a_plan(const HierarchyLayout& layout, Elements count, Bytes element_bytes,
                     const HierarchyCut& cut);
/// Without steps where it is not, and for HierarchyRoute::whole.
HierarchyPlan hierarchy_plan(const HierarchyLayout& layout, HierarchyRoute route, Elements count,
                             Bytes element_bytes, const HierarchyCut& cut);

/// "2x4", dimension 0 first.
std::string name_of(const HierarchyLayout& layout);
/// "2x4 on NCCL and rails"
std::string name_of(const HierarchyLayout& layout, HierarchyRoute route);

}  // namespace ddl
