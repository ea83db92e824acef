// What was called, how often and why it went where it went; DDL_REPORT as docs/report.md has it. Thread
// safety: all.
#pragma once

#include <string>

#include "core/base/env.hpp"
#include "interpose/nccl/call.hpp"

namespace ddl::nccl {

/// Reads the environment, and sees to it that the report is written when the process ends.
void start_report();

/// Valid from start_report() on.
const Env& environment();

/// The time, for what follows; 0 where no report is wanted: then nothing is counted, so that a call costs
/// next to nothing.
Nanoseconds report_clock();

/// One call that the original took as it was, and the time the program spent in it. `why`: of a communicator
/// that has plans, why none of them; else null.
void count(const Call& call, const char* why, Nanoseconds time);

/// One call that went by a plan beside the original's communicator; the plan's name.
void count_planned(const Call& call, const std::string& plan, Nanoseconds time);

/// One call that the engine took, on a communicator of ours.
void count_served(const Call& call, Nanoseconds time);

/// Into the file that DDL_REPORT names, when this process is the one that writes it; into an MPI report that
/// this job has left there.
void write_report() noexcept;

}  // namespace ddl::nccl
