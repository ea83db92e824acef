// The part of Session about the report: DDL_REPORT, see docs/report.md.
#include <algorithm>
#include <nlohmann/json.hpp>

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

void merge(json& report, const json& part) {
  if (report["algorithms"].empty())
    report["algorithms"] = part["algorithms"];  // the same on all ranks of a call
  report["staging_bytes"] =
      std::max(report["staging_bytes"].get<Bytes>(), part.value("staging_bytes", Bytes{0}));
  merge_counts(report, part);
}

}  // namespace

bool Session::wants_report() const {
  return handshake_.conclusion().joined ? job_map().report : !env().report.empty();
}

std::string Session::report_part() {
  predicted_.resize(job_map().lanes.size());
  if (engine_) engine_->collect(counters_, predicted_);
  json part = counters_.to_json();
  part["rails"] = json::array();
  for (std::size_t lane = 0; lane < job_map().lanes.size() && engine_; ++lane)
    part["rails"].push_back({{"name", job_map().lanes[lane]},
                             {"bytes_sent", endpoint_.wire()->bytes_sent(lane)},
                             {"bytes_predicted", predicted_[lane]}});
  part["staging_bytes"] = endpoint_.local() ? endpoint_.local()->staging_taken() : 0;
  return part.dump();
}

void Session::write_report(const std::vector<std::string>& parts) const {
  json report = empty_report(size(), engine_ != nullptr, job_map().trouble);
  for (const std::string& text : parts)
    if (json part = json::parse(text, nullptr, false); !part.is_discarded()) merge(report, part);
  json dims = json::array();
  if (!job_map().host_of_rank.empty()) {
    Grid grid = tuning_.grid(job_map().host_of_rank, job_map().numa_of_rank);
    for (int d = 0; d < grid.dimensions(); ++d) dims.push_back(grid.fanout(d));
  }
  report["grid"] = {{"hosts", hosts_of(job_map())}, {"dims", dims}};
  ReportFile(env().report).write(report);
}

}  // namespace ddl
