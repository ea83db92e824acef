// The part of Session about the report: DDL_REPORT, see docs/report.md.
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/clock.hpp"
#include "core/session/session.hpp"
#include "core/trace/report_file.hpp"

namespace ddl {
namespace {

using nlohmann::json;

json hosts_of(const JobMap& job_map) {
  json hosts = json::array();
  for (const std::string& name : job_map.host_names)
    hosts.push_back({{"name", name}, {"ranks", json::array()}});
  for (std::size_t rank = 0; rank < job_map.host_of_rank.size(); ++rank)
    hosts[static_cast<std::size_t>(job_map.host_of_rank[rank])]["ranks"].push_back(rank);
  return hosts;
}

// Its lowercase calls make no all-reduce of MPI's: the launcher then says so.
bool has_mpi4py() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/mpi4py/") != std::string::npos) return true;
  return false;
}

}  // namespace

bool Session::wants_report() const {
  return handshake_.conclusion().joined ? job_map().report : !env().report.empty();
}

std::string Session::report_part() {
  keeper_.reset();
  return counted_so_far();
}

std::string Session::counted_so_far() {
  std::lock_guard lock(counting_mutex_);
  predicted_.resize(job_map().rails.size());
  if (engine_) engine_->collect(counters_, predicted_);
  json part = counters_.to_json();
  for (json& collective : part["collectives"]) collective["ranks"] = json::array({rank()});
  part["rails"] = json::array();
  for (std::size_t rail = 0; rail < job_map().rails.size() && engine_; ++rail)
    part["rails"].push_back({{"name", job_map().rails[rail]},
                             {"bytes_sent", endpoint_.wire()->bytes_sent(rail)},
                             {"bytes_predicted", predicted_[rail].sent},
                             {"bytes_in_memory", predicted_[rail].in_memory}});
  part["staging_bytes"] = endpoint_.local() ? endpoint_.local()->staging_taken() : 0;
  part["fusion_bytes"] = fusion_memory_.most_taken();
  return part.dump();
}

json Session::report_of(const std::vector<std::string>& parts) const {
  json report = empty_report(size(), engine_ != nullptr, job_map().trouble);
  for (const std::string& text : parts)
    if (json part = json::parse(text, nullptr, false); !part.is_discarded()) merge_part(report, part);
  count_ranks(report);
  json dims = json::array();
  if (!job_map().host_of_rank.empty()) {
    Grid grid = tuning_.grid(job_map().host_of_rank, job_map().numa_of_rank);
    for (int d = 0; d < grid.dimensions(); ++d) dims.push_back(grid.fanout(d));
  }
  report["grid"] = {{"hosts", hosts_of(job_map())}, {"dims", dims}};
  if (joined_at_ != 0) report["seconds"] = static_cast<double>(now() - joined_at_) * 1e-9;
  report["mpi4py"] = has_mpi4py();
  return report;
}

void Session::write_report(const std::vector<std::string>& parts) const {
  ReportFile(env().report).write(report_of(parts));
}

// What a job that dies has counted on rank 0 alone: the others cannot be asked while it runs.
void Session::keep_report() {
  if (!may_be_kept(env().report)) return;
  keeper_ = std::make_unique<ReportKeeper>([this] {
    is_engine_thread() = true;
    (void)write_file(env().report, report_of({counted_so_far(), kUnfinishedPart}).dump(2) + "\n");
  });
}

}  // namespace ddl
