// Counters of one rank: calls, bytes and time per collective by route, and calls per plan. Summed over the
// job into the report. Thread safety: all members.
#pragma once

#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/types.hpp"

namespace ddl {

class Counters {
 public:
  void count_engine(const char* collective, Bytes bytes, Nanoseconds time);
  void count_original(const char* collective, const char* reason, Bytes bytes, Nanoseconds time);
  void count_plan(const char* collective, Bytes size_class, const std::string& plan);
  /// {"collectives": [...], "algorithms": [...]} as in docs/report.md.
  nlohmann::json to_json() const;

 private:
  struct Tally {
    std::uint64_t calls = 0;
    Bytes bytes = 0;
    Nanoseconds time = 0;
    void add(Bytes more, Nanoseconds longer) { ++calls, bytes += more, time += longer; }
  };
  struct Collective {
    Tally engine;
    std::map<std::string, Tally, std::less<>> original;  // by reason
  };
  mutable std::mutex mutex_;
  std::map<std::string, Collective, std::less<>> collectives_;
  std::map<std::string, std::map<Bytes, std::pair<std::string, std::uint64_t>>, std::less<>> plans_;
};

/// Adds the counts of another rank's report to this one's.
void merge_counts(nlohmann::json& into, const nlohmann::json& from);

}  // namespace ddl
