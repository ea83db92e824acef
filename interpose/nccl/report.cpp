// NCCL programs share no channel of ours yet, so the report holds the counts of the one process that writes
// it: rank 0 of the launcher's job, where there is one, else rank 0 of its largest communicator.
#include "interpose/nccl/report.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/trace/counters.hpp"
#include "core/trace/report_file.hpp"
#include "core/trace/report_keeper.hpp"
#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/hierarchies.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

using nlohmann::json;

constexpr const char* kLeft = "left to NCCL";

struct Report {
  Env env;
  Counters counters;
  ReportFile file;
  pid_t owner = getpid();
  std::atomic<bool> served{false};  // something went to the engine
  std::mutex writing;
  std::unique_ptr<ReportKeeper> keeper;  // while a report is wanted
};

Report& report() {
  static Report* the_report = new Report;  // outlives exit handlers of the program
  return *the_report;
}

bool may_be_writer() {
  const std::string rank = launcher_rank();
  return rank.empty() || rank == "0";
}

bool is_writer() { return launcher_rank().empty() ? comm_facts().lowest == 0 : may_be_writer(); }

std::string version() {
  int code = 0;
  if (!next().ncclGetVersion || original::ncclGetVersion(&code) != ncclSuccess) return "";
  int major = code >= 10000 ? code / 10000 : code / 1000, rest = code >= 10000 ? code % 10000 : code % 1000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

std::string path_of_original() {
  Dl_info found;
  auto address = reinterpret_cast<void*>(next().ncclCommInitRank);
  return address && dladdr(address, &found) ? found.dli_fname : "";
}

// What this job's MPI front wrote, else the beginnings of a report of our own.
json started_report(Report& r) {
  json found = r.file.settled();
  return found.is_null() ? empty_report(comm_facts().largest, r.served, r.served ? "" : kLeft) : found;
}

json with_counts(json text, const Report& r) {
  json counted = r.counters.to_json();
  for (auto [list, key] :
       {std::pair("collectives", "name"), {"algorithms", "collective"}, {"fused", "collective"}}) {
    json& all = text[list];
    for (std::size_t i = all.size(); i-- > 0;)  // those of an earlier writing
      if (all[i].value(key, "").rfind("nccl", 0) == 0) all.erase(i);
    for (const json& one : counted[list]) all.push_back(one);
  }
  text["nccl"] = {{"version", version()},
                  {"library", path_of_original()},
                  {"communicators", comm_facts().created},
                  {"largest", comm_facts().largest},
                  {"counted", "the process of rank 0"}};
  return text;
}

// Between communicators the one that was written when the last of them ended stands. Where another front
// writes one, it keeps its own until the end.
void keep_report() {
  Report& r = report();
  std::lock_guard lock(r.writing);
  if (comm_facts().alive == 0 || !is_writer() || !r.file.written().is_null()) return;
  json text = with_counts(started_report(r), r);
  merge_part(text, json::parse(kUnfinishedPart));
  r.file.write(text);
}

void at_exit() {
  if (report().owner != getpid()) return;
  report().keeper.reset();
  write_report();
  abandon_ours();
  abandon_hierarchies();
}

}  // namespace

void start_report() {
  Report& r = report();
  try {
    r.env = load_env();
  } catch (const UsageError& error) {
    if (may_be_writer()) log_warning(error.what());
  }
  if (r.env.verbose > 0 && may_be_writer())
    log_info(next().ncclCommInitRank
                 ? fmt::format("NCCL {} of {}: its calls are left to it where it can serve them", version(),
                               path_of_original())
                 : "no NCCL library in this process");
  if (is_counted()) is_watched = true;
  r.file = ReportFile(r.env.report);
  if (may_be_kept(r.env.report) && may_be_writer()) r.keeper = std::make_unique<ReportKeeper>(keep_report);
  std::atexit(at_exit);
}

const Env& environment() { return report().env; }

bool is_counted() { return !report().env.report.empty(); }

Nanoseconds report_clock() { return is_counted() ? now() : 0; }

Issued issued(Call call, const char* why) {
  const int ranks = is_counted() ? size_of(call) : 0;
  call.record.reset();
  return {.call = std::move(call), .why = why, .ranks = ranks};
}

void count(const Issued& one, Nanoseconds time) {
  Report& r = report();
  if (r.env.report.empty() || one.call.verb == Call::Verb::destroy_op) return;
  const char* reason = !r.env.enable ? "engine is off" : one.why ? one.why : kLeft;
  r.counters.count_original(name_of(one.call.verb), reason, {1, bytes_of(one.call, one.ranks), time});
}

namespace {

void count_ours(const Call& call, std::string_view how, Nanoseconds time) {
  Report& r = report();
  if (r.env.report.empty()) return;
  r.served = true;
  Bytes bytes = bytes_of(call, size_of(call));
  r.counters.collect(name_of(call.verb), std::bit_ceil(bytes), std::string(how), {1, bytes, time});
}

}  // namespace

void count_served(const Call& call, ddl_stream_where where, Nanoseconds time) {
  count_ours(call,
             where == DDL_STREAM_ON_DEVICE ? "on the GPU"
             : where == DDL_STREAM_ON_HOST ? "staged by the host"
                                           : "no elements",
             time);
}

void count_fused(std::span<const Call* const> calls, const std::string& of, Nanoseconds time_of_each) {
  Bytes bytes = 0;
  for (const Call* call : calls) {
    count_ours(*call, "fused: staged by the host", time_of_each);
    bytes += bytes_of(*call, size_of(*call));
  }
  report().counters.count_fused(name_of(calls[0]->verb), of, calls.size(), bytes);
}

void count_planned(const Call& call, const std::string& plan, Nanoseconds time) {
  count_ours(call, plan, time);
}

void write_report() noexcept {
  guarded([]() -> ncclResult_t {
    Report& r = report();
    std::lock_guard lock(r.writing);
    if (r.env.report.empty() || comm_facts().created == 0 || !is_writer()) return ncclSuccess;
    r.file.write(with_counts(started_report(r), r));
    return ncclSuccess;
  });
}

}  // namespace ddl::nccl
