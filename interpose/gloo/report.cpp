// The report holds the counts of the one process that writes it: rank 0 of the launcher's job, where there is
// one, else rank 0 of the largest context. Until the end of the process it is kept: written now and then.
#include "interpose/gloo/report.hpp"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/trace/counters.hpp"
#include "core/trace/report_file.hpp"
#include "core/trace/report_keeper.hpp"

namespace ddl::gloo {
namespace {

using nlohmann::json;

struct Report {
  Env env;
  ReportFile file;
  Counters left;  // to gloo
  EngineContexts contexts;
  std::mutex mutex;                        // of what follows
  json over = json::object();              // the part of contexts that are
  std::shared_ptr<EngineContext> largest;  // of them; stays, for the head of the report
  pid_t owner = getpid();
  std::unique_ptr<ReportKeeper> keeper;  // while a report is wanted and not yet written
};

Report& report() {
  static auto& the_report = *new Report;  // outlives exit handlers of the program
  return the_report;
}

bool is_larger(const std::shared_ptr<EngineContext>& one, const std::shared_ptr<EngineContext>& other) {
  return !other || one->size() > other->size();
}

// That report, with what was counted here.
json merged(json report, const std::vector<std::string>& parts) {
  for (const std::string& text : parts) merge_part(report, json::parse(text));
  count_ranks(report);
  return report;
}

struct Counted {
  std::vector<std::string> parts;
  std::shared_ptr<EngineContext> largest;  // null: none has joined
  std::string why_not;                     // where none has, and one says it
};

Counted counted_so_far() {
  Report& r = report();
  Counted counted;
  counted.parts.push_back(r.left.to_json().dump());
  std::lock_guard lock(r.mutex);
  for (const std::shared_ptr<EngineContext>& context : r.contexts.all()) {
    if (context->has_joined()) {
      counted.parts.push_back(context->report_part());
      if (is_larger(context, r.largest)) r.largest = context;
    } else if (std::string reason = context->why_not(); !reason.empty()) {
      counted.why_not = reason;
    }
  }
  counted.parts.push_back(r.over.dump());
  counted.largest = r.largest;
  return counted;
}

bool may_be_writer() {
  const std::string rank = launcher_rank();
  return rank.empty() || rank == "0";
}

bool is_writer(const Counted& counted) {
  return launcher_rank().empty() ? counted.largest && counted.largest->rank() == 0 : may_be_writer();
}

void write_own(const Counted& counted) {
  Report& r = report();
  if (!counted.largest) return r.file.write(merged(empty_report(1, false, counted.why_not), counted.parts));
  counted.largest->write_report(counted.parts);
  r.file.claim();
}

// Where MPI writes one it keeps its own until the end.
void keep_report() {
  Counted counted = counted_so_far();
  if (!is_writer(counted) || !report().file.written().is_null()) return;
  counted.parts.push_back(kUnfinishedPart);
  write_own(counted);
}

void write_report() {
  Report& r = report();
  Counted counted = counted_so_far();
  if (!is_writer(counted)) return;
  if (counted.why_not.empty()) counted.why_not = "no call of gloo's was made";
  if (json found = r.file.settled(); !found.is_null())
    return r.file.write(merged(std::move(found), counted.parts));
  write_own(counted);
}

void at_exit() {
  if (report().owner != getpid()) return;
  report().keeper.reset();
  try {
    write_report();
  } catch (const std::exception& error) {
    log_warning(std::string("the report is not written: ") + error.what());
  }
}

void count_ended(const EngineContextList& over) {
  Report& r = report();
  std::lock_guard lock(r.mutex);
  for (const std::shared_ptr<EngineContext>& context : over) {
    if (!context->has_joined()) continue;
    merge_part(r.over, json::parse(context->report_part()));
    if (is_larger(context, r.largest)) r.largest = context;
  }
}

}  // namespace

std::shared_ptr<EngineContext> engine_context_of(const std::shared_ptr<Context>& context) {
  EngineContextList over;
  std::shared_ptr<EngineContext> found = report().contexts.of(context, over);
  if (!over.empty() && !report().env.report.empty()) count_ended(over);
  return found;
}

void start_report() {
  Report& r = report();
  try {
    r.env = load_env();
    // Elsewhere ddlrun or MPI's rank 0 says it.
    if (foreign_env("PMIX_RANK").empty() && may_be_writer())
      for (const std::string& warning : r.env.warnings) log_warning(warning);
  } catch (const UsageError& error) {
    if (may_be_writer()) log_warning(error.what());
  }
  r.file = ReportFile(r.env.report);
  if (r.env.report.empty()) return;
  if (may_be_kept(r.env.report) && may_be_writer()) r.keeper = std::make_unique<ReportKeeper>(keep_report);
  std::atexit(at_exit);
}

void count_original(const char* collective, const char* why, Bytes bytes) {
  report().left.count_original(collective, why, {1, bytes, 0});
}

}  // namespace ddl::gloo
