// What was called, how often and why it went where it went; DDL_REPORT as docs/report.md has it. Thread
// safety: all.
#pragma once

#include <span>
#include <string>

#include "core/api/stream_api.h"
#include "core/base/env.hpp"
#include "interpose/nccl/call.hpp"

namespace ddl::nccl {

/// Reads the environment, and sees to it that the report is written when the process ends.
void start_report();

/// Valid from start_report() on.
const Env& environment();

/// Whether a report is wanted. Where none is, nothing is counted, so that a call costs next to nothing.
bool is_counted();

/// The time, for what follows; 0 where no report is wanted.
Nanoseconds report_clock();

/// A call that goes to the original as it is.
struct Issued {
  Call call;
  const char* why = nullptr;  // of a communicator that has plans: why none of them
  int ranks = 0;              // of the communicator; 0 where no report is wanted
};
/// Without the record of its communicator, which may end before the call is counted.
Issued issued(Call call, const char* why = nullptr);
/// The original took it, and the program spent that time in it.
void count(const Issued& one, Nanoseconds time);

/// One call that went by a plan beside the original's communicator; the plan's name.
void count_planned(const Call& call, const std::string& plan, Nanoseconds time);

/// One call that the engine took, on a communicator of ours.
void count_served(const Call& call, ddl_stream_where where, Nanoseconds time);
/// Likewise several that became one operation, of a class in words.
void count_fused(std::span<const Call* const> calls, const std::string& of, Nanoseconds time_of_each);

/// Into the file that DDL_REPORT names, when this process is the one that writes it; into an MPI report that
/// this job has left there.
void write_report() noexcept;

}  // namespace ddl::nccl
