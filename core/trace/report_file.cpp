#include "core/trace/report_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

json ReportFile::written() const {
  if (stamp_of(name_) == before_) return {};
  json found = json::parse(read_file(name_, kMostReportBytes).text, nullptr, false);
  return found.is_object() && found.contains("collectives") ? found : json();
}

void ReportFile::write(const json& report) const {
  if (std::error_code failed = write_file(name_, report.dump(2) + "\n"))
    log_error(fmt::format("cannot write the report to {} ({}); name a file where there is room", name_,
                          failed.message()));
}

}  // namespace ddl
