// TuningCache: what was found out by measuring, per machine, between jobs. The text of the cache file
// (DDL_TUNE_CACHE) is read by rank 0 and reaches the others with its endpoint info; rank 0 writes the file at
// the end.
//
// File: {"ddl_tuning": 1, "machines": {NAME: [{"grid", "bytes_up_to", "original" | "algorithm", "share",
// "segment", "window", "us", "rails"}]}}. Of a collective other than all-reduce the grid's name ends with the
// kind, "algorithm" is empty and there are "kind", "division", "directly", "radix". "bytes_up_to" 0 says the
// rates of the rails alone. NAME says all that a measurement depends on; other machines' entries are kept, as
// far as they can be read and the file has room.
//
// Thread safety: all members.
#pragma once

#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plan/choice.hpp"
#include "core/plan/task_choice.hpp"
#include "core/tune/cache_file.hpp"

namespace ddl {

/// The size class of an entry that says nothing but the rates of the rails.
inline constexpr Bytes kOfRailsAlone = 0;

/// The way that was settled on for one size class of communicators with that grid.
struct TuningEntry {
  std::string grid;
  Bytes size_class = 0;
  bool original = false;
  PlanChoice choice;               // of an all-reduce, unless original
  std::vector<double> rail_rates;  // bytes per second, where there are several
  double microseconds = 0;
  std::optional<TaskChoice> task = {};  // of another kind, unless original; for root 0
};

/// Processors of a host, as far as a measurement depends on them.
struct Cpus {
  std::size_t cores = 0;
  std::string model;  // "" where the system does not say
};

/// All that a measurement depends on, for the cache: processors of a host, ranks of each host, and where
/// there are several hosts, what carries bytes between them and over which rails (and how fast those claim to
/// be).
std::string machine_name(const Cpus& cpus, std::span<const HostIndex> host_of_rank, const std::string& wire,
                         std::span<const std::string> rails);

/// Whether that is the text of a cache file of this version.
bool is_tuning(const std::string& text);

/// What rank 0 tells the others of a cache file's text: the entries of machines with those processors, all of
/// them readable.
struct TuningToTell {
  std::string text;     // "" where there is nothing to tell
  std::string trouble;  // what is wrong with the file, then there is nothing to tell
};
TuningToTell tuning_to_tell(const std::string& text, const Cpus& cpus);

class TuningCache {
 public:
  explicit TuningCache(std::string machine) : machine_(std::move(machine)) {}

  /// Takes the entries for this machine from the text of a cache file. Returns what is wrong with it, "" when
  /// nothing; then nothing was taken.
  std::string read(const std::string& text);
  /// Finds what was read, never what was learned since: that may differ from rank to rank, as communicators
  /// with equal grids have other members, and ranks that decide differently wait for each other for ever.
  std::optional<TuningEntry> find(const std::string& grid, Bytes size_class) const;
  bool has_read_none() const;
  /// Of the last entry of that grid, for whatever kind; empty when there is none.
  std::vector<double> rail_rates(const std::string& grid) const;
  void learn(TuningEntry entry);
  bool has_news() const;
  /// The text of a cache file that held `text` until now: its entries for this machine stay but where others
  /// have been learned. Other machines' are left out where there would be more than `most` bytes.
  std::string write(const std::string& text, std::size_t most = kMostCacheBytes) const;

 private:
  std::string machine_;
  mutable std::mutex mutex_;
  std::vector<TuningEntry> read_, learned_;
};

}  // namespace ddl
