// The file behind DDL_REPORT: what is in it (docs/report.md) and how each front of a process writes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/file.hpp"

namespace ddl {

/// A report without counts. `reason`: why the engine did not serve the job.
nlohmann::json empty_report(int ranks, bool engine, const std::string& reason);

class ReportFile {
 public:
  /// What stands there now is of another job.
  explicit ReportFile(const std::string& name = {}) : name_(name), before_(stamp_of(name)) {}
  /// What another front of this job has written there; null where none has.
  nlohmann::json written() const;
  /// Warns in one line where that fails.
  void write(const nlohmann::json& report) const;

 private:
  std::string name_;
  FileStamp before_;
};

}  // namespace ddl
