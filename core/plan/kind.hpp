// Kind: which collective a call is; Task: with its root.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "core/base/types.hpp"

namespace ddl {

enum class Kind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  send,
  receive
};
inline constexpr int kKinds = 10;

constexpr std::string_view name_of(Kind kind) {
  constexpr std::string_view names[kKinds] = {"all-reduce",     "broadcast", "reduce",  "all-gather",
                                              "reduce-scatter", "gather",    "scatter", "all-to-all",
                                              "send",           "receive"};
  return names[static_cast<int>(kind)];
}

/// Those that compute; the others move.
constexpr bool computes(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}

/// Between two ranks, of which one sends and the other receives; nobody else takes part.
constexpr bool is_between_two(Kind kind) { return kind == Kind::send || kind == Kind::receive; }

constexpr bool has_root(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::gather || kind == Kind::scatter;
}

/// Within a host: one writes what another reads. Of the others everybody does both, all the time.
constexpr bool is_one_way(Kind kind) {
  return kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
}

/// Of an all-to-all in which all ranks have blocks with one rank alone: who sends them.
enum class Rooted : std::uint8_t {
  no,
  gather,   // the others
  scatter,  // that one
};

/// What a plan is for: a kind, and its root or the other rank of two; 0 where there is none.
struct Task {
  Kind kind = Kind::all_reduce;
  Rank root = 0;
  bool unequal = false;  // blocks may differ in length
  Rooted rooted = Rooted::no;
  friend auto operator<=>(const Task&, const Task&) = default;
};

/// Blocks that rank `me` of `ranks` brings in, and those it gets out; see Call.
constexpr Rank blocks_in(Task task, Rank me, Rank ranks) {
  if (task.kind == Kind::reduce_scatter || task.kind == Kind::all_to_all) return ranks;
  if (task.kind == Kind::receive) return 0;
  if (task.kind == Kind::broadcast) return me == task.root ? 1 : 0;
  if (task.kind == Kind::scatter) return me == task.root ? ranks : 0;
  return 1;
}
constexpr Rank blocks_out(Task task, Rank me, Rank ranks) {
  if (task.kind == Kind::all_gather || task.kind == Kind::all_to_all) return ranks;
  if (task.kind == Kind::send) return 0;
  if (task.kind == Kind::reduce) return me == task.root ? 1 : 0;
  if (task.kind == Kind::gather) return me == task.root ? ranks : 0;
  return 1;
}

}  // namespace ddl
