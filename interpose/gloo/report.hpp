// What was called, how often and why it went where it went; DDL_REPORT as docs/report.md has it. Thread
// safety: all.
#pragma once

#include "interpose/gloo/contexts.hpp"
#include "interpose/gloo/layout.hpp"

namespace ddl::gloo {

/// That of gloo's; those that are over meanwhile are counted and ended.
std::shared_ptr<EngineContext> engine_context_of(const std::shared_ptr<Context>& context);

/// Reads the environment, and sees to it that the report is written when the process ends.
void start_report();

/// A call that gloo does, and why.
void count_original(const char* collective, const char* why, Bytes bytes);

}  // namespace ddl::gloo
