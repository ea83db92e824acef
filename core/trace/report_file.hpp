// The file behind DDL_REPORT: what is in it (docs/report.md) and how each front of a process writes it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/file.hpp"

namespace ddl {

/// More is no report: as that of a job of some 100,000 hosts.
inline constexpr std::size_t kMostReportBytes = 64 << 20;

/// A report without counts. `reason`: why the engine did not serve the job.
nlohmann::json empty_report(int ranks, bool engine, const std::string& reason);

/// Whether a report may be written there again and again: not to a device or a pipe, where each one stays.
bool may_be_kept(const std::string& name);

/// Thread safety: none.
class ReportFile {
 public:
  /// What stands there now is of another job.
  explicit ReportFile(const std::string& name = {}) : name_(name), before_(stamp_of(name)) {}
  /// What another front of this job has written there last; null where none has.
  nlohmann::json written();
  /// The same for who writes its last: null also where that is only kept and its front will add to what
  /// stands there then. Not so MPI's, which may never come to its end.
  nlohmann::json settled();
  /// One error line where that fails: the program goes on.
  void write(const nlohmann::json& report);
  /// What stands there now is this front's.
  void claim() { mine_ = stamp_of(name_); }

 private:
  std::string name_;
  FileStamp before_, mine_;
  nlohmann::json others_;
};

}  // namespace ddl
