// A job under the engine of which ddlrun wants to tell something afterwards: where its report is written, and
// what was seen of it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/file.hpp"
#include "launcher/engine_use.hpp"
#include "launcher/job_spec.hpp"

namespace ddl {

/// Where rank 0 will be, where that is not this machine; "" where it is, or nobody knows.
std::string host_of_rank_zero_if_far(const JobInputs& in);

/// A file that a variable names to rank 0, "" none.
std::string file_named_by(const std::string& variable, const JobInputs& in);

/// Where the user wants the report, "" nowhere.
std::string report_named_by_user(const JobInputs& in);

/// A pipe closed by who reads our output does not end us while this lives.
class PipeSignalIgnored {
 public:
  PipeSignalIgnored();
  ~PipeSignalIgnored();
  PipeSignalIgnored(const PipeSignalIgnored&) = delete;
  PipeSignalIgnored& operator=(const PipeSignalIgnored&) = delete;

 private:
  void (*before_)(int);
};

/// Where rank 0 writes the report: --report FILE, else DDL_REPORT of the environment or of -x, else (or in
/// any case, where asked) a file of our own that goes with this object; nowhere where rank 0 could not see
/// that.
class ReportPlace {
 public:
  enum class Name { users, ours };
  explicit ReportPlace(const JobInputs& in, Name name = Name::users);
  ~ReportPlace();
  ReportPlace(const ReportPlace&) = delete;
  ReportPlace& operator=(const ReportPlace&) = delete;

  const std::string& file() const { return file_; }
  bool is_ours() const { return !folder_.empty(); }
  /// What is written there, "" where that is what was there `before`.
  std::string text(const FileStamp& before) const;
  const FileStamp& before() const { return before_; }

 private:
  PipeSignalIgnored survives_;  // so that the folder goes in any case
  std::string folder_, file_;
  FileStamp before_;
};

struct WatchedEnd {
  JobEnd end;
  UseFacts facts;
};

/// Runs the job to its end. `sink` as in supervise().
WatchedEnd run_watched(const JobInputs& in, const JobSpec& job, const ReportPlace& report,
                       const std::function<void(std::string_view)>& sink = {});

}  // namespace ddl
