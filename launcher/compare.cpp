#include "launcher/compare.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "launcher/messages.hpp"

namespace ddl {
namespace {

using nlohmann::json;

// Rounds of short jobs: until so many, or so much time has gone.
constexpr std::size_t kMostRounds = 4;
constexpr double kShortJob = 10, kEnough = 40;
// What counting costs a call; where that is more than this share of a run it is not taken for a plain one.
constexpr double kCountingACall = 1e-7, kNegligible = 0.002;

bool is_check(std::string_view line) { return line.rfind("check:", 0) == 0 || line.rfind("CHECK", 0) == 0; }

void write_all(std::string_view text) {
  while (!text.empty()) {
    ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Both runs read the same standard input when it is a file; a pipe goes to the first run.
class Rewind {
 public:
  Rewind() : start_(lseek(STDIN_FILENO, 0, SEEK_CUR)) {
    struct stat facts {};
    if (fstat(STDIN_FILENO, &facts) != 0 || !S_ISREG(facts.st_mode)) start_ = -1;
  }
  void again() const {
    if (start_ >= 0) lseek(STDIN_FILENO, start_, SEEK_SET);
  }

 private:
  off_t start_;
};

json parsed(const std::string& report) {
  json read = json::parse(report, nullptr, false);
  return read.is_object() && read.contains("collectives") ? read : json();
}

enum class Shows { output, nothing };

Outcome measure(const JobInputs& in, const JobSpec& job, const ReportPlace& report, Shows shows,
                UseFacts& facts) {
  OutputReader reader;
  auto start = std::chrono::steady_clock::now();
  WatchedEnd ended = run_watched(in, job, report, [&](std::string_view piece) {
    reader.feed(piece);
    if (shows == Shows::output) write_all(piece);
  });
  std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  facts = std::move(ended.facts);
  return {ended.end,
          passed.count(),
          reader.check(),
          reader.bench(),
          inside_seconds(facts.report),
          all_reduce_seconds(facts.report),
          rail_bytes(facts.report)};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

using Quantity = std::optional<double> (*)(const Outcome&);
std::optional<double> wall(const Outcome& run) { return run.seconds; }
std::optional<double> inside(const Outcome& run) { return run.inside; }
std::optional<double> in_all_reduce(const Outcome& run) { return run.all_reduce; }
std::optional<double> over_rails(const Outcome& run) { return run.rail_bytes; }

// Empty where a run does not know it.
std::vector<double> values_of(const std::vector<Outcome>& runs, Quantity quantity) {
  std::vector<double> values;
  for (const Outcome& run : runs) {
    auto value = quantity(run);
    if (!value) return {};
    values.push_back(*value);
  }
  return values;
}

std::string row(const char* name, const std::vector<double>& plain, const std::vector<double>& engine,
                const char* note = "") {
  if (plain.empty() || engine.empty()) return {};
  const double ours = median(engine);
  return fmt::format("{:<24}{:>12}{:>12}{:>9}{}\n", name, duration_text(median(plain)), duration_text(ours),
                     ours > 0 ? fmt::format("{:.2f}", median(plain) / ours) : "-", note);
}

// Whether runs of one kind differ by as much as the two kinds do.
bool is_noise(const std::vector<double>& plain, const std::vector<double>& engine) {
  auto [least_plain, most_plain] = std::minmax_element(plain.begin(), plain.end());
  auto [least_engine, most_engine] = std::minmax_element(engine.begin(), engine.end());
  return *least_plain <= *most_engine && *least_engine <= *most_plain;
}

std::string verdict(const std::vector<double>& plain, const std::vector<double>& engine) {
  const double ratio = median(engine) > 0 ? median(plain) / median(engine) : 0;
  std::string text =
      fmt::format("ratio         {:8.3f} (mpirun / ddlrun; above 1 the engine is faster)\n", ratio);
  if (plain.size() == 1 || engine.size() == 1)
    return text + "              one run of each: a few percent may be noise\n";
  if (is_noise(plain, engine))
    return text + "              the difference is noise: runs of one kind differ by as much\n";
  return text + "              more than runs of one kind differ by\n";
}

std::string rails_text(const std::vector<Outcome>& engine) {
  const auto bytes = values_of(engine, over_rails);
  if (bytes.empty() || median(bytes) <= 0) return {};
  return fmt::format("{:<24}{:>12}{:>12}\n", "sent between hosts", "not counted",
                     fmt::format("{:.4g} MB", median(bytes) / 1e6));
}

// Median of all runs, for rows that all have.
std::string bench_text(const std::vector<Outcome>& plain, const std::vector<Outcome>& engine) {
  auto medians = [](const std::vector<Outcome>& runs) {
    std::map<BenchRow, std::vector<double>> all;
    for (const Outcome& run : runs)
      for (const auto& [row, microseconds] : run.bench) all[row].push_back(microseconds);
    std::map<BenchRow, double> of_all;
    for (const auto& [row, values] : all)
      if (values.size() == runs.size()) of_all[row] = median(values);
    return of_all;
  };
  std::string text;
  const auto theirs = medians(plain), ours = medians(engine);
  for (const auto& [row, microseconds] : theirs)
    if (auto found = ours.find(row); found != ours.end() && found->second > 0)
      text += fmt::format("{:>12}{:>14.2f}{:>14.2f}{:>9.2f}{}{}\n", row.second, microseconds, found->second,
                          microseconds / found->second, row.first.empty() ? "" : "  ", row.first);
  if (text.empty()) return text;
  return fmt::format("{:>12}{:>14}{:>14}{:>9}\n", "bytes", "mpirun us", "ddlrun us", "ratio") + text;
}

std::string check_text(const Outcome& plain, const Outcome& engine) {
  if (!plain.check && !engine.check)
    return "check line    none printed (a line that starts with 'check:' would be compared)\n";
  if (plain.check == engine.check) return fmt::format("check line    the same: {}\n", *plain.check);
  return fmt::format("check line    DIFFERS\n  mpirun      {}\n  ddlrun      {}\n",
                     plain.check.value_or("(none)"), engine.check.value_or("(none)"));
}

double calls_in(const std::string& report) {
  double calls = 0;
  const json read = parsed(report);
  if (read.is_null()) return calls;
  for (const json& one : read.value("collectives", json::array()))
    for (const json& original : one.value("original", json::array())) calls += original.value("calls", 0.0);
  return calls;
}

// The runs of one comparison, in turn.
class Runs {
 public:
  Runs(const JobInputs& in, const ReportPlace& report)
      : in_(in),
        report_(report),
        plain_report_(in, ReportPlace::Name::ours),
        engine_(engine_job(in)),
        counted_(plain_job(in, Measures::calls, plain_report_.file())),
        plain_(plain_job(in, Measures::start, plain_report_.file())) {}

  Outcome counted() {
    Outcome outcome = run("plain mpirun", counted_, plain_report_);
    counted_calls_ = calls_in(facts_.report);
    return outcome;
  }
  Outcome engine() {
    Outcome outcome = run("ddlrun", engine_, report_);
    line_ = engine_line(facts_);
    return outcome;
  }
  Outcome plain_again() { return run({}, plain_, plain_report_); }
  Outcome engine_again() { return run({}, engine_, report_); }
  /// What the engine did in the first of its runs.
  const std::string& line() const { return line_; }
  /// That the counting run counted, of all ranks.
  double counted_calls() const { return counted_calls_; }

 private:
  Outcome run(const std::string& heading, const JobSpec& job, const ReportPlace& report) {
    input_.again();
    if (!heading.empty()) write_all(fmt::format("--- {}\n", heading));
    return measure(in_, job, report, heading.empty() ? Shows::nothing : Shows::output, facts_);
  }

  const JobInputs& in_;
  const ReportPlace& report_;
  const ReportPlace plain_report_;
  const JobSpec engine_, counted_, plain_;
  const Rewind input_;
  UseFacts facts_;
  std::string line_;
  double counted_calls_ = 0;
};

// Says what ended the comparison early; false when nothing did.
bool has_ended(const Outcome& run, const char* kind) {
  if (run.end.interrupted) {
    print_note(fmt::format("the comparison was interrupted (signal {})", run.end.interrupted));
    return true;
  }
  if (run.end.code == 0) return false;
  print_warning(
      fmt::format("the run under {} ended with exit code {} (there is nothing to compare with); make it "
                  "work first",
                  kind, run.end.code));
  return true;
}

}  // namespace

void OutputReader::take(const std::string& line) {
  if (is_check(line)) check_ = line;
  if (line.find("bytes") != std::string::npos && line.find("iters") != std::string::npos) {
    in_table_ = line.find("median us") != std::string::npos;
    return;
  }
  if (!in_table_) return;
  const std::size_t name = line.find_first_not_of(' '), numbers = line.find_first_of("0123456789");
  if (numbers == std::string::npos) return;
  const std::size_t end = numbers > 0 ? line.find_last_not_of(' ', numbers - 1) : std::string::npos;
  std::istringstream words(line.substr(numbers));
  std::uint64_t bytes = 0, count = 0, iters = 0;
  double microseconds = 0;
  if (words >> bytes >> count >> iters >> microseconds)
    bench_[{end == std::string::npos ? "" : line.substr(name, end + 1 - name), bytes}] = microseconds;
}

void OutputReader::feed(std::string_view piece) {
  constexpr std::size_t kLongest = 1 << 16;  // a stream need not have lines
  for (char c : piece) {
    if (c != '\n') {
      if (open_.size() < kLongest) open_ += c;
      continue;
    }
    if (!open_.empty() && open_.back() == '\r') open_.pop_back();
    take(open_);
    open_.clear();
  }
}

std::optional<std::string> OutputReader::check() const { return is_check(open_) ? open_ : check_; }

std::optional<double> all_reduce_seconds(const std::string& report) {
  const json read = parsed(report);
  if (read.is_null()) return std::nullopt;
  double seconds = 0;
  bool any = false;
  for (const json& one : read["collectives"]) {
    std::string name = one.value("name", "");
    if (name.find("llreduce") == std::string::npos && name.find("llReduce") == std::string::npos) continue;
    if (name.rfind("MPI_I", 0) == 0) continue;
    any = true;
    const double ranks = std::max(1.0, one.value("ranks", 1.0));
    if (one.contains("engine")) seconds += one["engine"].value("seconds", 0.0) / ranks;
    for (const json& original : one.value("original", json::array()))
      seconds += original.value("seconds", 0.0) / ranks;
  }
  if (!any) return std::nullopt;
  return seconds;
}

std::optional<double> inside_seconds(const std::string& report) {
  const json read = parsed(report);
  if (!read.contains("seconds") || !read["seconds"].is_number()) return std::nullopt;
  return read["seconds"].get<double>();
}

std::optional<double> rail_bytes(const std::string& report) {
  const json read = parsed(report);
  if (!read.contains("rails") || read["rails"].empty()) return std::nullopt;
  double bytes = 0;
  for (const json& rail : read["rails"]) bytes += rail.value("bytes_sent", 0.0);
  return bytes;
}

std::string comparison_text(const Comparison& done) {
  std::string text = fmt::format("--- comparison, {}\n{:<24}{:>12}{:>12}{:>9}\n",
                                 done.engine.size() == 1 ? "one run each"
                                                         : fmt::format("medians of {} and {} runs in turn",
                                                                       done.plain.size(), done.engine.size()),
                                 "", "mpirun", "ddlrun", "ratio");
  const auto plain = values_of(done.plain, wall), engine = values_of(done.engine, wall);
  const auto plain_inside = values_of(done.plain, inside), engine_inside = values_of(done.engine, inside);
  text += row("wall time", plain, engine);
  text += row("  without the start", plain_inside, engine_inside);
  text += row("  in all-reduces", values_of({done.counted}, in_all_reduce),
              values_of(done.engine, in_all_reduce), "  per rank, waiting for slower ranks included");
  text += rails_text(done.engine);
  const bool is_inside = !plain_inside.empty() && !engine_inside.empty();
  text += is_inside ? verdict(plain_inside, engine_inside) : verdict(plain, engine);
  text += is_inside ? "              of the time without the start (between MPI_Init and MPI_Finalize)\n"
                    : "              of the wall time, most of which may be the start\n";
  text += bench_text(done.plain, done.engine);
  for (const Outcome& run : done.engine)
    if (run.end.code != 0) {
      text += fmt::format("ddlrun's run failed with exit code {}\n", run.end.code);
      break;
    }
  return text + check_text(done.counted, done.engine.front());
}

int run_comparison(const JobInputs& in, const ReportPlace& report) {
  Runs runs(in, report);
  Comparison done;
  done.counted = runs.counted();
  if (has_ended(done.counted, "plain mpirun")) return done.counted.end.code;
  done.engine.push_back(runs.engine());
  print_note(runs.line());
  if (done.engine.back().end.interrupted) {
    has_ended(done.engine.back(), "ddlrun");
    return done.engine.back().end.code;
  }
  const double round = done.counted.seconds + done.engine.front().seconds;
  const bool is_short = round < 2 * kShortJob;
  if (is_short && done.engine.back().end.code == 0) {
    write_all("--- again, in turn, without their output\n");
    for (double gone = 0; done.engine.size() < kMostRounds && gone < kEnough; gone += round) {
      done.plain.push_back(runs.plain_again());
      if (has_ended(done.plain.back(), "plain mpirun")) return done.plain.back().end.code;
      done.engine.push_back(runs.engine_again());
      if (has_ended(done.engine.back(), "ddlrun")) return done.engine.back().end.code;
    }
  } else if (done.engine.back().end.code == 0 &&
             runs.counted_calls() * kCountingACall > kNegligible * done.counted.seconds) {
    done.plain.push_back(runs.plain_again());
    if (has_ended(done.plain.back(), "plain mpirun")) return done.plain.back().end.code;
  }
  if (done.plain.empty()) done.plain.push_back(done.counted);
  write_all(comparison_text(done));
  return done.engine.front().end.code;
}

}  // namespace ddl
