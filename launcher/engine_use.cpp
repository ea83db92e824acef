#include "launcher/engine_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/strings.hpp"

namespace ddl {
namespace {

using nlohmann::json;

struct Use {
  std::string name;
  double calls = 0, engine = 0;  // per rank that makes such calls
  double bytes = 0, seconds = 0;
  std::string original;  // "28 measured"
};

bool is_all_reduce(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("allreduce") != std::string::npos;
}

// Throws json::exception.
Use use_of(const json& collective) {
  const double ranks = std::max(1.0, collective.value("ranks", 1.0));
  Use use;
  use.name = collective.at("name").get<std::string>();
  const json& engine = collective.at("engine");
  use.engine = use.calls = engine.at("calls").get<double>() / ranks;
  use.bytes = engine.at("bytes").get<double>() / ranks;
  use.seconds = engine.at("seconds").get<double>() / ranks;
  Strings reasons;
  for (const json& one : collective.at("original")) {
    const double calls = one.at("calls").get<double>() / ranks;
    use.calls += calls;
    reasons.push_back(fmt::format("{:.6g} {}", calls, reason_text(one.at("reason").get<std::string>())));
  }
  use.original = join(reasons, ", ");
  return use;
}

// Served ones first, of these all-reduces, then what had the most bytes.
std::vector<Use> uses_in(const json& report) {
  std::vector<Use> uses;
  for (const json& collective : report.at("collectives")) uses.push_back(use_of(collective));
  std::stable_sort(uses.begin(), uses.end(), [](const Use& one, const Use& other) {
    auto weight = [](const Use& use) { return (use.engine > 0 ? 2 : 0) + is_all_reduce(use.name); };
    return weight(one) != weight(other) ? weight(one) > weight(other) : one.bytes > other.bytes;
  });
  return uses;
}

constexpr const char* kLowercase =
    "no MPI_Allreduce was called: mpi4py's lowercase allreduce() pickles its values and sends them one by "
    "one; "
    "comm.Allreduce(array, result) is served";

// "888 MPI_Allreduce calls per rank"; in a report that is not complete rank 0 alone is counted.
std::string calls_text(const json& report, const Use& use) {
  return fmt::format("{:.6g} {} calls {}", use.calls, use.name,
                     report.value("complete", true) ? "per rank" : "of rank 0");
}

std::string served_text(const json& report, const std::vector<Use>& uses) {
  const Use& first = uses.front();
  std::string text = fmt::format("{:.6g} of {}, {}, {}", first.engine, calls_text(report, first),
                                 decimal_bytes(first.bytes), duration_text(first.seconds));
  if (!first.original.empty()) text += "; original: " + first.original;
  constexpr std::size_t kNamed = 3;
  if (report.value("mpi4py", false) && !is_all_reduce(first.name)) text += std::string("; ") + kLowercase;
  double engine = 0, calls = 0;
  for (std::size_t i = 1; i < uses.size(); ++i) engine += uses[i].engine, calls += uses[i].calls;
  if (uses.size() > kNamed)
    return text + fmt::format("; and {:.6g} of {:.6g} calls of {} other collectives", engine, calls,
                              uses.size() - 1);
  for (std::size_t i = 1; i < uses.size() && uses[i].engine > 0; ++i)
    text += fmt::format("; and {:.6g} of {:.6g} {}", uses[i].engine, uses[i].calls, uses[i].name);
  return text;
}

// Why a program that has written a report was not served; "" where it may have been since.
std::string why_not_served(const json& report, const std::vector<Use>& uses) {
  if (!report.value("engine", true)) {
    std::string reason = report.value("reason", "");
    if (reason.ends_with("DDL_ENABLE=0")) return "DDL_ENABLE=0";  // of whichever rank
    if (!reason.empty() && reason != "left to NCCL") return reason;
  }
  // One in which the job has failed is of no kind yet.
  const auto passed =
      std::find_if(uses.begin(), uses.end(), [](const Use& use) { return !use.original.empty(); });
  if (passed != uses.end())
    return fmt::format("all {} went to the original ({})", calls_text(report, *passed), passed->original);
  if (!report.value("complete", true)) return {};
  if (report.value("mpi4py", false)) return kLowercase;
  if (report.value("ranks", 2) == 1) return "the job has one rank: there is nothing to reduce";
  return "the program made no collective call";
}

bool is_over(const UseFacts& facts) { return facts.end.code == 0 && !facts.end.interrupted; }

// Why there is no report; "" where this host cannot know. What dies at once may not have been seen.
std::string why_not_seen(const UseFacts& facts) {
  const JobSeen& seen = facts.seen;
  if (!facts.missing_shim.empty()) return facts.missing_shim + " is missing";
  if (facts.reach == Preloadable::statically)
    return fmt::format("{} is statically linked: nothing of it can be intercepted", facts.program);
  if (facts.reach == Preloadable::privileged)
    return fmt::format("{} is setuid or setgid: the dynamic linker then ignores the shim", facts.program);
  if (!seen.mpich.empty())
    return fmt::format(
        "{} uses MPICH or one like it (Intel MPI, MVAPICH), and this is Open MPI's mpirun: "
        "every process is rank 0 of 1; use that library's own mpirun",
        seen.mpich);
  if (!seen.without_shim.empty())
    return fmt::format("LD_PRELOAD was taken away before {} started: its MPI calls are not intercepted",
                       seen.without_shim);
  if (!facts.far_host.empty()) return {};
  if (seen.front)
    return is_over(facts) ? "rank 0 could not use it" : "rank 0 did not come to the end of its MPI_Init";
  if (!seen.with_mpi.empty()) return fmt::format("{} did not come to MPI_Init", seen.with_mpi);
  return fmt::format("nothing that {} started {} MPI, NCCL or gloo", facts.program,
                     is_over(facts) ? "used" : "was seen to use");
}

bool is_of_mpi(const std::vector<Use>& uses) {
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.name.starts_with("MPI"); });
}

std::string end_text(const JobEnd& end) {
  if (end.interrupted) return fmt::format("the job was interrupted (signal {})", end.interrupted);
  if (end.code > 128 && end.code < 128 + 65) return fmt::format("the job died (signal {})", end.code - 128);
  return fmt::format("the job failed (exit code {})", end.code);
}

std::string told_text(const UseFacts& facts, const json& report, const std::vector<Use>& uses) {
  const bool is_partial = !report.value("complete", true);
  const bool is_served = !uses.empty() && uses.front().engine > 0;
  std::string end = is_over(facts) ? "" : end_text(facts.end);
  if (is_partial && end.empty())
    end = is_of_mpi(uses) ? "the program did not call MPI_Finalize" : "rank 0 ended without its last report";
  const std::string why = is_served ? "" : why_not_served(report, uses);
  if (!is_served && why.empty())
    return fmt::format("not known, rank 0 had counted no call yet up to 2 s before its end; {}", end);
  std::string text = is_served ? served_text(report, uses) : "not used, because " + why;
  if (!end.empty()) text += "; " + end;
  return is_partial ? text + ", up to 2 s before that" : text;
}

std::string untold_text(const UseFacts& facts) {
  const std::string end = is_over(facts) ? "" : end_text(facts.end);
  const bool is_near = facts.far_host.empty();
  if (!facts.device.empty() && (facts.seen.front || !is_near))
    return fmt::format("not known here, the report went to {}", facts.device) +
           (end.empty() ? "" : "; " + end);
  if (is_near && facts.seen.other_front)
    return fmt::format("not known, because rank 0 wrote no report before {}",
                       end.empty() ? "the job ended" : end);
  if (is_near && facts.seen.front && !end.empty())
    return fmt::format("not used, because {} before it had done an all-reduce", end);
  if (facts.seen.front && !facts.place_without_room.empty())
    return fmt::format("not known, because rank 0 could write no report in {}", facts.place_without_room);
  const std::string why = why_not_seen(facts);
  const std::string text =
      why.empty() ? fmt::format("not known here, rank 0 ran on {}: name a --report file that both see",
                                facts.far_host)
                  : "not used, because " + why;
  return end.empty() ? text : text + "; " + end;
}

}  // namespace

std::string engine_line(const UseFacts& facts) {
  const json report = json::parse(facts.report, nullptr, false);
  std::vector<Use> uses;
  const bool is_told = report.is_object() && report.contains("collectives");
  try {
    if (is_told) uses = uses_in(report);
  } catch (const json::exception&) {
    return "engine: not known, the report is of another version";
  }
  return "engine: " + (is_told ? told_text(facts, report, uses) : untold_text(facts));
}

std::string decimal_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  while (bytes >= 999.95 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (seconds >= 0.0995) return fmt::format("{:.3g} s", seconds);
  if (seconds >= 0.9995e-3) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} us", seconds * 1e6);
}

std::string reason_text(const std::string& reason) {
  if (reason == "measured against the engine") return "measured";
  if (reason == "faster than the engine, by measurement") return "faster there";
  return reason;
}

}  // namespace ddl
