#include "launcher/watched_job.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "core/trace/report_file.hpp"
#include "launcher/report_check.hpp"
#include "launcher/supervise.hpp"

namespace ddl {
namespace {

// Of the programs' files, where this machine has them.
void look_at_programs(const JobInputs& in, UseFacts& facts) {
  for (const AppContext& app : in.options.apps) {
    const std::string file = find_program(app.program, program_search(app, in.world));
    if (facts.program.empty()) facts.program = app.program;
    if (file.empty()) continue;
    if (facts.reach == Preloadable::yes) facts.reach = judge_program(file);
  }
}

}  // namespace

std::string host_of_rank_zero_if_far(const JobInputs& in) {
  const std::string host = rank_zero_host(in);
  return host.empty() || in.world.is_here(host) ? std::string() : host;
}

std::string file_named_by(const std::string& variable, const JobInputs& in) {
  std::string file = in.world.variable(variable);
  for (const std::string& entry : in.options.values_of([](std::string_view name) { return name == "x"; }))
    if (entry.starts_with(variable + "=")) file = entry.substr(variable.size() + 1);
  if (file.empty()) return file;
  return absolute_path(file, program_search(in.options.apps.front(), in.world).directory);
}

std::string report_named_by_user(const JobInputs& in) {
  const std::string& file = in.options.report_file;
  if (file.empty() || file == "-") return file_named_by("DDL_REPORT", in);
  return absolute_path(file, in.world.directory);
}

namespace {

// TMPDIR may name a folder that only other hosts have.
std::string temporary_folder() {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failed);
  return failed ? "/tmp" : folder.string();
}

// Where rank 0 could have written no report, "" where it could.
std::string place_without_room(const ReportPlace& report) {
  if (report.file().empty()) return temporary_folder();
  if (!may_be_kept(report.file())) return {};  // a pipe or the like
  std::string trial = report.file() + ".ddlrun-XXXXXX";
  const int made = mkstemp(trial.data());
  const std::string text(std::size_t{64} << 10, '\n');
  const bool has_room =
      made >= 0 && write(made, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (made >= 0) unlink(trial.c_str());
  if (made >= 0) close(made);
  if (has_room) return {};
  return report.is_ours() ? temporary_folder() : std::filesystem::path(report.file()).parent_path().string();
}

}  // namespace

PipeSignalIgnored::PipeSignalIgnored() : before_(signal(SIGPIPE, SIG_IGN)) {}
PipeSignalIgnored::~PipeSignalIgnored() { signal(SIGPIPE, before_); }

// A folder of this machine is no place for a rank on another.
ReportPlace::ReportPlace(const JobInputs& in, Name name)
    : file_(name == Name::users ? report_named_by_user(in) : "") {
  if (file_.empty()) {
    if (!host_of_rank_zero_if_far(in).empty()) return;
    std::string folder = temporary_folder() + "/ddlrun-XXXXXX";
    if (!mkdtemp(folder.data())) return;
    folder_ = folder;
    file_ = folder_ + "/report.json";
  }
  before_ = stamp_of(file_);
}

ReportPlace::~ReportPlace() {
  std::error_code ignored;
  if (is_ours()) std::filesystem::remove_all(folder_, ignored);
}

std::string ReportPlace::text(const FileStamp& before) const {
  if (file_.empty() || stamp_of(file_) == before) return {};
  return read_file(file_, kMostReportBytes).text;
}

WatchedEnd run_watched(const JobInputs& in, const JobSpec& job, const ReportPlace& report,
                       const std::function<void(std::string_view)>& sink) {
  WatchedEnd end;
  UseFacts& facts = end.facts;
  look_at_programs(in, facts);
  if (access(in.installation.shim().c_str(), R_OK) != 0) facts.missing_shim = in.installation.shim();
  facts.far_host = host_of_rank_zero_if_far(in);
  if (is_device(report.file())) facts.device = report.file();
  const FileStamp before = stamp_of(report.file());
  JobWatch watch;
  end.end = supervise(job, sink, [&](pid_t starter) { return watch.look(starter); });
  remove_unfinished(report.file());
  facts.seen = watch.seen();
  facts.end = end.end;
  facts.report = report.text(before);
  if (facts.seen.front && facts.report.empty() && facts.device.empty() && facts.far_host.empty())
    facts.place_without_room = place_without_room(report);
  return end;
}

}  // namespace ddl
