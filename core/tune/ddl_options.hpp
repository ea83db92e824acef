// DDL_OPTIONS: the option string of IBM's DDL, which ddlrun's -m/--mode writes. The launcher reads it with
// the same functions as the engine, so that what it accepts and explains is what happens.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.hpp"
#include "core/plan/grid.hpp"

namespace ddl {

enum class Mode : char {
  pick = 'p',     // measure, then the best plan for each size, the original library among them
  blue = 'b',     // the decomposed all-reduce, the algorithm of each dimension by the cost model
  nccl = 'n',     // rings, through NCCL where it is underneath
  ring = 'r',     // rings in every dimension
  scatter = 'm',  // the MPI library's own reduce-scatter and all-gather
};

struct DdlOptions {
  Mode mode = Mode::pick;
  std::vector<Rank> dims;       // of `-mode x:4x2`; empty: from the machine
  std::uint64_t dump_iter = 0;  // print what was done every so many calls; 0: never
  std::uint64_t dbg_level = 0;
  std::vector<std::string> ignored;  // words of IBM's that change nothing here
  /// Names and values of variables that are overruled: -wire_type bfloat16 is DDL_WIRE_TYPE.
  std::vector<std::pair<std::string, std::string>> variables;
};

/// IBM's LETTER[:AxBxC], "b:4x2"; nothing when it is something else.
struct ModeWord {
  Mode mode = Mode::pick;
  std::vector<Rank> dims;
};
std::optional<ModeWord> parse_mode(const std::string& word);

/// Throws UsageError. An empty string is the default; one of IBM's words that names no mode is IBM's flat
/// ring.
DdlOptions parse_ddl_options(const std::string& text, Rank ranks);

/// The variables with what their DDL_OPTIONS say of them. UsageError as above.
Env with_options(Env env);

/// How a communicator is laid out: by the user's dimensions when they are for as many ranks, else by its
/// hosts and, where those of the ranks are known, their NUMA nodes.
Grid grid_of(const DdlOptions& options, std::span<const HostIndex> hosts,
             std::span<const int> numa_nodes = {});

}  // namespace ddl
