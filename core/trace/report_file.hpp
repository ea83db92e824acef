// The file behind DDL_REPORT: what is in it (docs/report.md) and how each front of a process writes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/file.hpp"

namespace ddl {

/// More is no report: as that of a job of some 100,000 hosts.
inline constexpr std::size_t kMostReportBytes = 64 << 20;

/// A report without counts. `reason`: why the engine did not serve the job.
nlohmann::json empty_report(int ranks, bool engine, const std::string& reason);

class ReportFile {
 public:
  /// What stands there now is of another job.
  explicit ReportFile(const std::string& name = {}) : name_(name), before_(stamp_of(name)) {}
  /// What another front of this job has written there; null where none has.
  nlohmann::json written() const;
  /// One error line where that fails: the program goes on.
  void write(const nlohmann::json& report) const;

 private:
  std::string name_;
  FileStamp before_;
};

}  // namespace ddl
