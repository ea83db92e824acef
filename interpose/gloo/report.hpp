// What was called, how often and why it went where it went; DDL_REPORT as docs/report.md has it. Thread
// safety: all.
#pragma once

#include "interpose/gloo/contexts.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

constexpr const char* kCollective = "gloo::allreduce";

/// That of a call; those that are over meanwhile are counted and ended.
std::shared_ptr<EngineContext> context_of(const AllReduceOptions& call);

/// Reads the environment, and sees to it that the report is written when the process ends.
void start_report();

/// A call that gloo does, and why.
void count_original(const AllReduceOptions& call, const char* why);

}  // namespace ddl::gloo
