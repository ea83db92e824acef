// The report holds the counts of the one process that writes it: rank 0 of the launcher's job, where there is
// one, else rank 0 of the first context.
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

struct Report {
  Env env;
  ReportFile file;
  Counters left;  // to gloo
  EngineContexts contexts;
  pid_t owner = getpid();
};

Report& report() {
  static auto& the_report = *new Report;  // outlives exit handlers of the program
  return the_report;
}

// The lowest rank of this process in any of its contexts.
bool is_writer() {
  for (const char* name : {"PMIX_RANK", "RANK"})
    if (std::string rank = foreign_env(name); !rank.empty()) return rank == "0";
  Rank lowest = 0;
  bool is_first = true;
  contexts().each([&](const EngineContext& context) {
    if (std::exchange(is_first, false)) lowest = context.rank();
  });
  return lowest == 0;
}

void write_report() {
  Report& r = report();
  if (r.env.report.empty() || !is_writer()) return;
  std::vector<std::string> parts{r.left.to_json().dump()};
  EngineContext* largest = nullptr;
  Rank ranks = 1;
  std::string why = "no all-reduce of gloo's was made";
  r.contexts.each([&](EngineContext& context) {
    ranks = std::max(ranks, context.size());
    if (!context.has_joined()) {
      why = context.why_not();
      return;
    }
    parts.push_back(context.report_part());
    if (!largest || largest->size() < context.size()) largest = &context;
  });
  if (largest) return largest->write_report(parts);
  nlohmann::json text = empty_report(ranks, false, why);
  merge_counts(text, r.left.to_json());
  r.file.write(text);
}

void at_exit() {
  if (report().owner != getpid()) return;
  try {
    write_report();
  } catch (const std::exception& error) {
    log_warning(std::string("the report is not written: ") + error.what());
  }
}

}  // namespace

EngineContexts& contexts() { return report().contexts; }

void start_report() {
  Report& r = report();
  try {
    r.env = load_env();
  } catch (const UsageError& error) {
    if (is_writer()) log_warning(error.what());
  }
  r.file = ReportFile(r.env.report);
  if (r.env.report.empty()) return;
  r.contexts.keep_all();
  std::atexit(at_exit);
}

void count_original(const AllReduceOptions& call, const char* why) {
  const bool is_known = std::strcmp(why, "unknown options") != 0;
  report().left.count_original(kCollective, why, is_known ? call.elements * call.element_size : 0, 0);
}

}  // namespace ddl::gloo
