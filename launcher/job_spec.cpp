#include "launcher/job_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "core/base/env.hpp"
#include "launcher/mca_parameters.hpp"
#include "launcher/messages.hpp"
#include "launcher/mpirun_options.hpp"

namespace ddl {
namespace {

// hwloc's GL component opens X displays and can hang on a port that something else listens on.
constexpr const char* kHwlocName = "HWLOC_COMPONENTS";
constexpr const char* kHwlocValue = "-gl,-opencl";

void append(Strings& words, const Strings& more) { words.insert(words.end(), more.begin(), more.end()); }

Strings whitespace_words(const std::string& text) {
  std::istringstream stream(text);
  Strings words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// One of the user's options in the form this mpirun takes: 5 has no --rankfile of its own, and wants two
// dashes.
Strings adapted(const PassedOption& option, const MpirunInfo& mpirun) {
  const MpirunOption& row = *find_mpirun_option(option.name);
  KnownTo here = mpirun.major >= 5 ? KnownTo::open_mpi_5 : KnownTo::open_mpi_4;
  if (row.known_to != KnownTo::both && row.known_to != here)
    throw UsageError(
        fmt::format("{} is an option of Open MPI {} only", option.word, mpirun.major >= 5 ? 4 : 5),
        fmt::format("the mpirun here is {}", mpirun.version), "leave it out");
  Strings words;
  if (mpirun.major >= 5 && (option.name == "rankfile" || option.name == "rf"))
    return {"--map-by", "rankfile:file=" + option.values[0]};
  words.push_back(mpirun.major >= 5 ? with_dashes(option.name) : option.word);
  append(words, option.values);
  return words;
}

// Does ddl-exec bind the ranks?
enum class Binds { no, yes };

// Where ddl-exec binds, it reports too: mpirun would know of no binding.
bool is_ours(const std::string& option, Binds binds) {
  return option == "report-bindings" && binds == Binds::yes;
}

// The words for all programs together, in front of the first one's own.
Strings common_words(const JobInputs& in, Binds binds) {
  Strings words = in.options.mpi_args;
  std::erase_if(words, [&](const std::string& word) {
    return word.starts_with('-') && is_ours(word.substr(word.find_first_not_of('-')), binds);
  });
  if (binds == Binds::yes) append(words, {"--bind-to", "none"});
  if (in.options.tcp) {
    append(words, {"--mca", "pml", "ob1", "--mca", "btl"});
    words.push_back(in.mpirun.major >= 5 ? "self,sm,tcp" : "self,vader,tcp");
  }
  return words;
}

Strings app_options(const JobInputs& in, const AppContext& app, Binds binds) {
  Strings words;
  if (in.allocation.mpirun_needs_hosts() || in.allocation.is_foreign_hostfile)
    append(words, {"-H", host_list_text(in.allocation.hosts)});
  for (const PassedOption& option : app.options)
    if (!is_ours(option.name, binds) && !(in.allocation.is_foreign_hostfile && is_host_file(option.name)))
      append(words, adapted(option, in.mpirun));
  return words;
}

// Names the user sets for this program, with -x or in a parameter: those are never set twice.
std::set<std::string> exported_names(const JobInputs& in, const AppContext& app) {
  Strings entries = split(value_of(mca_parameters(in.options, in.world), {"mca_base_env_list"}), ';');
  for (const PassedOption& option : app.options)
    if (option.name == "x") entries.push_back(option.values[0]);
  std::set<std::string> names;
  for (const std::string& entry : entries) names.insert(entry.substr(0, entry.find('=')));
  return names;
}

// mpirun hands its own environment to the ranks of this host only; ddl-exec sets these on all. Not -x, which
// Open MPI 4 refuses beside its parameter mca_base_env_list.
Assignments rank_environment(const JobInputs& in) {
  Assignments set;
  std::string ddl_options = ddl_options_value(in.options, in.allocation, in.world.variable("DDL_OPTIONS"));
  if (in.world.variable(kHwlocName).empty()) set.emplace_back(kHwlocName, kHwlocValue);
  for (const std::string& entry : in.world.entries) {
    std::string name = entry.substr(0, entry.find('='));
    bool known = std::any_of(env_table().begin(), env_table().end(),
                             [&](const EnvRow& row) { return row.name == name; });
    bool ours = (name == "DDL_OPTIONS" && !ddl_options.empty()) ||
                (name == "DDL_REPORT" && !in.options.report_file.empty());
    if (known && !ours) set.emplace_back(name, entry.substr(entry.find('=') + 1));
  }
  if (!ddl_options.empty()) set.emplace_back("DDL_OPTIONS", ddl_options);
  if (!in.options.report_file.empty())
    set.emplace_back("DDL_REPORT", absolute_path(in.options.report_file, in.world.directory));
  return set;
}

// "rank 0=host slot=0-3" -> host; rankfiles may place rank 0 anywhere.
std::string rank_zero_in_rankfile(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    std::istringstream words(line);
    std::string word, place;
    if (words >> word >> place && word == "rank" && place.rfind("0=", 0) == 0) return place.substr(2);
  }
  return {};
}

// As the ranks of other hosts can call it; "" for mpirun's relative hosts, +n0.
std::string name_for_others(const std::string& host, const System& world) {
  if (host.starts_with('+')) return {};
  if (host != world.host && is_own_name(host, "")) return world.host;  // localhost
  return host.substr(host.find('@') + 1);
}

bool leaves_this_host_out(const Options& options) {
  const std::vector<PassedOption> all = options.all_passed();
  return std::any_of(all.begin(), all.end(), [](const PassedOption& option) {
    return option.name == "nolocal" ||
           (option.name == "map-by" && lower(option.values[0]).find(":nolocal") != std::string::npos);
  });
}

// The last value of a program's option, or "".
std::string last_value(const AppContext& app, std::initializer_list<std::string_view> names) {
  std::string value;
  for (const PassedOption& option : app.options)
    if (std::find(names.begin(), names.end(), option.name) != names.end()) value = option.values[0];
  return value;
}

// Where ranks of a program may be.
HostList hosts_of(const JobInputs& in, const AppContext& app) {
  HostList hosts = in.allocation.hosts;
  if (std::string own = last_value(app, {"H", "host"}); !own.empty()) hosts = parse_host_list(own);
  if (leaves_this_host_out(in.options))
    std::erase_if(hosts, [&](const HostSlots& entry) { return in.world.is_here(entry.host); });
  return hosts;
}

bool reports_bindings(const Options& options) {
  const std::vector<PassedOption> all = options.all_passed();
  return std::any_of(all.begin(), all.end(), [](auto& option) { return option.name == "report-bindings"; });
}

// `ddl-exec [flags] --`
Strings exec_words(const JobInputs& in, const AppContext& app, Binds binds, const Assignments& set) {
  Strings words = {in.installation.ddl_exec()};
  for (const auto& [name, value] : set) append(words, {"--set", name + "=" + value});
  if (binds == Binds::yes) append(words, {"--bind", "cores"});
  if (binds == Binds::yes && reports_bindings(in.options)) words.push_back("--report-bindings");
  if (std::string host = rank_zero_host(in); !host.empty()) append(words, {"--master", host});
  if (std::string path = last_value(app, {"path"}); !path.empty()) append(words, {"--path", path});
  if (in.options.verbose || in.options.accelerators) words.push_back("--tell-gpus");
  if (in.options.verbose) words.push_back("--verbose");
  words.push_back("--");
  return words;
}

Assignments mpirun_environment(const JobInputs& in) {
  Assignments set;
  if (in.world.variable(kHwlocName).empty()) set.emplace_back(kHwlocName, kHwlocValue);
  // mpirun waits minutes for a host that has gone; with these its daemons know within five seconds,
  // before a rank of ours gives up: what is then under way to that host would keep mpirun waiting.
  for (const auto& [name, value] : {std::pair("time", "1"), {"intvl", "1"}, {"probes", "4"}}) {
    const std::string variable =
        fmt::format("{}_MCA_oob_tcp_keepalive_{}", in.mpirun.major >= 5 ? "PRTE" : "OMPI", name);
    if (in.world.variable(variable).empty()) set.emplace_back(variable, value);
  }
  if (!in.world.root) return set;
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
    set.emplace_back(name, "1");
  if (in.mpirun.major >= 5)
    for (const char* name : {"PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      set.emplace_back(name, "1");
  return set;
}

}  // namespace

JobSpec engine_job(const JobInputs& in) {
  if (!can_be_preloaded(in.installation.shim()))
    throw LaunchError(fmt::format("'{}' has a blank or a colon", in.installation.lib),
                      "LD_PRELOAD cannot name the shim there", "install ddlrun under another path");
  JobSpec job{{in.mpirun.command}, mpirun_environment(in)};
  const Binds binds = user_chose_binding(in.options, in.world) ? Binds::no : Binds::yes;
  append(job.command, common_words(in, binds));
  for (std::size_t i = 0; i < in.options.apps.size(); ++i) {
    const AppContext& app = in.options.apps[i];
    if (i > 0) job.command.push_back(":");
    append(job.command, app_options(in, app, binds));
    Assignments set = rank_environment(in);
    std::erase_if(set, [taken = exported_names(in, app)](auto& one) { return taken.count(one.first) > 0; });
    append(job.command, exec_words(in, app, binds, set));
    job.command.push_back(app.program);
    append(job.command, app.args);
  }
  return job;
}

JobSpec plain_job(const JobInputs& in, Measures measures, const std::string& report) {
  JobSpec job{{in.mpirun.command}, mpirun_environment(in)};
  append(job.command, common_words(in, Binds::no));
  for (std::size_t i = 0; i < in.options.apps.size(); ++i) {
    AppContext app = in.options.apps[i];
    std::erase_if(app.options, [](const PassedOption& option) {
      return option.name == "x" && option.values[0].starts_with("DDL_");
    });
    if (i > 0) job.command.push_back(":");
    append(job.command, app_options(in, app, Binds::no));
    Assignments set = {{"DDL_ENABLE", "0"}};
    if (!report.empty()) set.emplace_back("DDL_REPORT", report);
    if (measures == Measures::start) set.emplace_back("DDL_TIMES_ONLY", "1");
    append(job.command, exec_words(in, app, Binds::no, set));
    job.command.push_back(app.program);
    append(job.command, app.args);
  }
  return job;
}

JobSpec helper_job(const JobInputs& in, const std::string& host, const Strings& program) {
  JobSpec job{{in.mpirun.command}, mpirun_environment(in)};
  append(job.command, in.options.mpi_args);
  for (const AppContext& app : in.options.apps)
    for (const PassedOption& option : app.options)
      if (option.name == "mca" || option.name == "prtemca" || option.name == "prefix")
        append(job.command, adapted(option, in.mpirun));
  append(job.command, {"-H", host, "-np", "1", "--bind-to", "none"});
  append(job.command, program);
  return job;
}

std::string rank_zero_host(const JobInputs& in) {
  for (const std::string& file :
       in.options.values_of([](std::string_view n) { return n == "rf" || n == "rankfile"; }))
    if (auto text = in.world.file(absolute_path(file, in.world.directory)))
      if (std::string named = rank_zero_in_rankfile(*text); !named.empty())
        return name_for_others(named, in.world);
  if (in.allocation.source == AllocationSource::this_machine) return {};
  const HostList hosts = hosts_of(in, in.options.apps.front());
  const auto is_here = [&](const HostSlots& entry) { return in.world.is_here(entry.host); };
  // Open MPI 4 begins with its own host, wherever that stands; 5 only where no list of the user's says
  // otherwise.
  auto first = hosts.begin();
  if (in.mpirun.major < 5 || !in.allocation.is_by_option())
    if (auto here = std::find_if(hosts.begin(), hosts.end(), is_here); here != hosts.end()) first = here;
  return first == hosts.end() ? std::string() : name_for_others(first->host, in.world);
}

bool surely_starts_here(const JobInputs& in, const AppContext& app) {
  const HostList hosts = hosts_of(in, app);
  const std::string first = &app == &in.options.apps.front() ? rank_zero_host(in) : "";
  if (!first.empty()) return in.world.is_here(first);
  return !hosts.empty() && std::all_of(hosts.begin(), hosts.end(),
                                       [&](const HostSlots& entry) { return in.world.is_here(entry.host); });
}

bool user_chose_binding(const Options& options, const System& world) {
  const std::vector<PassedOption> all = options.all_passed();
  const McaParameters set = mca_parameters(options, world);
  return std::any_of(all.begin(), all.end(),
                     [](const auto& option) { return chooses_binding(option.name, option.values); }) ||
         std::any_of(set.begin(), set.end(),
                     [](const auto& one) { return parameter_chooses_binding(one.name, one.value); });
}

std::string ddl_options_value(const Options& options, const Allocation& allocation,
                              const std::string& existing) {
  bool has_levels = options.racks || options.aisles;
  if (options.no_ddl_options || (options.mode.empty() && options.ddl_args.empty() && !has_levels)) return {};
  Strings words = whitespace_words(existing);
  if (!options.mode.empty() || has_levels) {
    if (auto old = std::find(words.begin(), words.end(), "-mode"); old != words.end())
      words.erase(old, old + std::min<std::ptrdiff_t>(2, words.end() - old));
    std::string mode = options.mode.empty() ? "p" : options.mode;
    // IBM's dimensions: accelerators in a host x hosts in a rack x racks x aisles
    std::uint64_t in_a_host = options.accelerators.value_or(options.expected_per_host);
    if (mode.size() == 1 && in_a_host > 0) {
      std::uint64_t racks = options.racks.value_or(1), aisles = options.aisles.value_or(1);
      mode += fmt::format(":{}x{}x{}x{}", in_a_host,
                          options.nodes.value_or(allocation.hosts.size() / (racks * aisles)), racks, aisles);
    }
    append(words, {"-mode", mode});
  }
  for (const std::string& arg : options.ddl_args) append(words, whitespace_words(arg));
  return join(words, " ");
}

ProgramSearch program_search(const AppContext& app, const System& world) {
  ProgramSearch search{last_value(app, {"path"}), world.variable("PATH"),
                       absolute_path(last_value(app, {"wd", "wdir"}), world.directory)};
  for (const PassedOption& option : app.options)
    if (option.name == "x" && option.values[0].starts_with("PATH=")) search.path = option.values[0].substr(5);
  return search;
}

}  // namespace ddl
