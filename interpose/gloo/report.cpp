// The report holds the counts of the one process that writes it: rank 0 of the launcher's job, where there is
// one, else rank 0 of the largest context.
#include "interpose/gloo/report.hpp"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/trace/counters.hpp"
#include "core/trace/report_file.hpp"

namespace ddl::gloo {
namespace {

using nlohmann::json;

struct Report {
  Env env;
  ReportFile file;
  Counters left;  // to gloo
  EngineContexts contexts;
  std::mutex mutex;                        // of what follows
  std::vector<std::string> parts;          // of contexts that are over
  std::shared_ptr<EngineContext> largest;  // of them; stays, for the head of the report
  pid_t owner = getpid();
};

Report& report() {
  static auto& the_report = *new Report;  // outlives exit handlers of the program
  return the_report;
}

bool is_larger(const std::shared_ptr<EngineContext>& one, const std::shared_ptr<EngineContext>& other) {
  return !other || one->size() > other->size();
}

// The report that somebody else of this process has written, with what was counted here.
json merged(json report, const std::vector<std::string>& parts) {
  for (const std::string& text : parts) {
    const json part = json::parse(text);
    merge_counts(report, part);
    for (const json& algorithm : part.value("algorithms", json::array()))
      report["algorithms"].push_back(algorithm);
  }
  count_ranks(report);
  return report;
}

void write_report() {
  Report& r = report();
  std::lock_guard lock(r.mutex);
  std::vector<std::string> parts{r.left.to_json().dump()};
  std::string why = "no call of gloo's was made";
  for (const std::shared_ptr<EngineContext>& context : r.contexts.all()) {
    if (context->has_joined()) {
      parts.push_back(context->report_part());
      if (is_larger(context, r.largest)) r.largest = context;
    } else if (std::string reason = context->why_not(); !reason.empty()) {
      why = reason;
    }
  }
  parts.insert(parts.end(), r.parts.begin(), r.parts.end());
  const std::string rank = launcher_rank();
  if (rank.empty() ? !r.largest || r.largest->rank() != 0 : rank != "0") return;
  if (json found = r.file.written(); !found.is_null()) return r.file.write(merged(std::move(found), parts));
  if (r.largest) return r.largest->write_report(parts);
  r.file.write(merged(empty_report(1, false, why), parts));
}

void at_exit() {
  if (report().owner != getpid()) return;
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
    r.parts.push_back(context->report_part());
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
  } catch (const UsageError& error) {
    if (std::string rank = launcher_rank(); rank.empty() || rank == "0") log_warning(error.what());
  }
  r.file = ReportFile(r.env.report);
  if (!r.env.report.empty()) std::atexit(at_exit);
}

void count_original(const char* collective, const char* why, Bytes bytes) {
  report().left.count_original(collective, why, {1, bytes, 0});
}

}  // namespace ddl::gloo
