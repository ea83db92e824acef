#include "core/trace/report_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/log.hpp"

namespace ddl {

using nlohmann::json;

json empty_report(int ranks, bool engine, const std::string& reason) {
  const json none = json::array();
  return {{"version", 1},       {"complete", true},
          {"ranks", ranks},     {"engine", engine},
          {"reason", reason},   {"collectives", none},
          {"algorithms", none}, {"fused", none},
          {"narrowed", none},   {"sparse", none},
          {"rails", none},      {"staging_bytes", 0},
          {"fusion_bytes", 0},  {"grid", {{"hosts", none}, {"dims", none}}}};
}

bool may_be_kept(const std::string& name) {
  std::error_code ignored;
  const auto place = std::filesystem::status(name, ignored);
  return !name.empty() && (!std::filesystem::exists(place) || std::filesystem::is_regular_file(place));
}

json ReportFile::written() {
  const FileStamp now = stamp_of(name_);
  if (now == before_ || now == mine_) return others_;
  json found = json::parse(read_file(name_, kMostReportBytes).text, nullptr, false);
  others_ = found.is_object() && found.contains("collectives") ? std::move(found) : json();
  return others_;
}

json ReportFile::settled() {
  json found = written();
  if (found.is_null() || found.value("complete", true)) return found;
  const json& all = found["collectives"];
  const bool has_mpi = std::any_of(all.begin(), all.end(),
                                   [](const json& one) { return one.value("name", "").starts_with("MPI"); });
  return has_mpi ? found : json();
}

void ReportFile::write(const json& report) {
  std::error_code failed = write_file(name_, report.dump(2) + "\n");
  claim();
  if (failed)
    log_error(fmt::format("cannot write the report to {} ({}); name a file where there is room", name_,
                          failed.message()));
}

}  // namespace ddl
