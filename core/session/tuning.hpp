// SessionTuning: what the communicators of a session share for choosing their ways: the options, and what was
// found out by measuring, in this job and those before. Rank 0 reads and writes the file of the latter.
//
// Thread safety: after set_up all members but save().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/env.hpp"
#include "core/bootstrap/job_map.hpp"
#include "core/plan/grid.hpp"
#include "core/tune/selection.hpp"
#include "core/tune/tuning_cache.hpp"

namespace ddl {

class SessionTuning {
 public:
  /// `env` must outlive it.
  SessionTuning(Rank me, const Env& env, bool has_original) : me_(me), env_(env) {
    settings_.has_original = has_original;
  }

  /// Rank 0's part of what all ranks must know.
  void describe(EndpointInfo& endpoint);
  void set_up(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints);
  /// Keeps what was learned for the next job. Nothing before set_up.
  void save() const;

  const TuneSettings& settings() const { return settings_; }
  TuningCache& memory() { return *memory_; }
  TrialBudget& budget() { return budget_; }
  Grid grid(const std::vector<HostIndex>& hosts, const std::vector<int>& numa_nodes) const {
    return grid_of(settings_.options, hosts, numa_nodes);
  }

 private:
  GradientSettings asked_settings() const;

  const Rank me_;
  const Env& env_;
  TuneSettings settings_;
  TrialBudget budget_{now()};
  std::string cache_trouble_;  // why rank 0 cannot read the tuning cache
  std::unique_ptr<TuningCache> memory_;
};

}  // namespace ddl
