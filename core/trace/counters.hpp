// Counters of one rank: calls, bytes and time per collective by route, and calls per plan. Summed over the
// job into the report. Calls on the engine are tallied where they happen and collected here at the end; calls
// on the original are counted here. Thread safety: all members.
#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/types.hpp"

namespace ddl {

struct Tally {
  std::uint64_t calls = 0;
  Bytes bytes = 0;
  Nanoseconds time = 0;
  void add(Bytes more, Nanoseconds longer) { ++calls, bytes += more, time += longer; }
  void add(const Tally& other) { calls += other.calls, bytes += other.bytes, time += other.time; }
};

/// Calls whose elements travel narrower than they are in memory.
struct Narrowed {
  std::uint64_t calls = 0;
  Bytes bytes = 0, sent = 0, in_memory = 0;  // of the calls; that travelled; and what these take in memory
  void add(const Narrowed& other) {
    calls += other.calls, bytes += other.bytes, sent += other.sent, in_memory += other.in_memory;
  }
};

class Counters {
 public:
  /// Adds what one plan, of one size class, was used for.
  void collect(const char* collective, Bytes size_class, const std::string& plan, const Tally& tally);
  /// Adds time during which calls were on the engine, beside that of their tallies.
  void collect_time(const char* collective, Nanoseconds time);
  void count_original(const char* collective, const char* reason, const Tally& tally);
  /// One batch of so many calls that were made as one, of a class in words.
  void count_fused(const char* collective, const std::string& of, std::uint64_t calls, Bytes bytes);
  /// A call of which so many bytes were sent, while so many were kept back on this rank.
  void count_sparse(const char* collective, Bytes bytes, Bytes sent, Bytes kept);
  /// Of one class in words, "float32 as bfloat16".
  void count_narrowed(const char* collective, const std::string& of, const Narrowed& more);
  /// Moves all counts of another one here.
  void take(Counters& other);
  /// {"collectives": [...], "algorithms": [...], "fused": [...], "narrowed": [...], "sparse": [...]} as in
  /// docs/report.md.
  nlohmann::json to_json() const;

 private:
  struct Fused {
    std::uint64_t calls = 0, batches = 0;
    Bytes bytes = 0;
  };
  struct Sparse {
    std::uint64_t calls = 0;
    Bytes bytes = 0, sent = 0, kept = 0;  // the most that was
    void add(const Sparse& other);
  };
  struct Collective {
    Tally engine;
    std::map<std::string, Tally, std::less<>> original;                // by reason
    std::map<std::pair<Bytes, std::string>, std::uint64_t> algorithm;  // calls by size class and plan
    std::map<std::string, Fused> fused;                                // by class
    std::map<std::string, Narrowed> narrowed;                          // likewise
    Sparse sparse;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Collective, std::less<>> collectives_;
};

/// Adds the counts of another rank's report to this one's.
void merge_counts(nlohmann::json& into, const nlohmann::json& from);
/// All are added: of each collective it now says how many ranks made such calls, no longer which.
void count_ranks(nlohmann::json& report);
/// Adds the calls of another rank per plan ("algorithms").
void merge_plans(nlohmann::json& into, const nlohmann::json& from);
/// Adds all that another part of a report tells.
void merge_part(nlohmann::json& into, const nlohmann::json& part);
/// The part that says that the job has not come to its end.
inline constexpr const char* kUnfinishedPart = R"({"complete": false})";

}  // namespace ddl
