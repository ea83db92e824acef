// What can be measured: one function for each item. All are collective over MPI_COMM_WORLD, make the same
// calls on all ranks, and add rows to the report that are valid on rank 0.
#pragma once

#include <vector>

#include "options.hpp"
#include "report.hpp"

namespace calls {

void measure_blocking(const Options& options, Report& report);
void measure_nonblocking(const Options& options, Report& report);
void measure_zero(const Options& options, Report& report);
void measure_first(const Options& options, Report& report);
void measure_outstanding(const Options& options, Report& report);
void measure_communicators(const Options& options, Report& report);
void measure_threads(const Options& options, Report& report);
void measure_sleep(const Options& options, Report& report);
void measure_compute(const Options& options, Report& report);
void measure_processor(const Options& options, Report& report);

enum class Group {
  kTogether,
  kOverlap,
  kAlone  // changes, or would be changed by, what else is measured in the process
};

struct Item {
  const char* name;
  Group group;
  const char* what;
  void (*measure)(const Options&, Report&);
};

const std::vector<Item>& items();

}  // namespace calls
