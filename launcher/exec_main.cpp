// ddl-exec [--set NAME=VALUE]… [--master HOST] [--bind cores] [--report-bindings] [--path DIRS]
//          [--tell-gpus] [--verbose] -- program args…
//
// The step between mpirun and the program, in the same process: sets LD_PRELOAD and the rank's variables for
// the program alone, so that mpirun, its daemons and their shells stay clean, binds the rank, and becomes the
// program. Trouble with the shim never stops the program: one warning per host, and it runs without the
// engine. Exit codes as a shell's: 127 when the program is not found, 126 when it cannot be executed.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "launcher/core_binding.hpp"
#include "launcher/exec_env.hpp"
#include "launcher/gpu_sharing.hpp"
#include "launcher/messages.hpp"
#include "launcher/program.hpp"
#include "launcher/system.hpp"
#include "launcher/topology_view.hpp"

namespace ddl {
namespace {

constexpr std::chrono::seconds kPatience{10};  // the job waits for it

struct ExecOptions {
  std::string master, path;
  Assignments variables;
  bool bind_cores = false, report_bindings = false, tell_gpus = false, verbose = false;
  Strings command;
};

std::pair<std::string, std::string> assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) throw UsageError(fmt::format("'{}' is no NAME=VALUE", text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void set_all(const Assignments& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

ExecOptions parse(const Strings& args) {
  ExecOptions options;
  std::size_t at = 0;
  auto value = [&] {
    if (at + 1 >= args.size()) throw UsageError(fmt::format("{} needs a value", args[at]));
    return args[++at];
  };
  for (; at < args.size() && args[at] != "--"; ++at) {
    if (args[at] == "--set")
      options.variables.push_back(assignment(value()));
    else if (args[at] == "--master")
      options.master = value();
    else if (args[at] == "--path")
      options.path = value();
    else if (args[at] == "--bind")
      options.bind_cores = value() == "cores";
    else if (args[at] == "--report-bindings")
      options.report_bindings = true;
    else if (args[at] == "--tell-gpus")
      options.tell_gpus = true;
    else if (args[at] == "--verbose")
      options.verbose = true;
    else
      throw UsageError(fmt::format("unknown option {}", args[at]), "",
                       "write ddl-exec [options] -- program args");
  }
  for (++at; at < args.size(); ++at) options.command.push_back(args[at]);
  if (options.command.empty())
    throw UsageError("no program is given", "", "write ddl-exec [options] -- program args");
  return options;
}

// One rank per host speaks.
void warn(const RankFacts& facts, const std::string& text) {
  if (facts.local_rank.value_or(0) == 0) print_warning(text);
}

void preload_shim(const RankFacts& facts, const System& world) {
  std::string shim = this_installation().shim();
  if (access(shim.c_str(), R_OK) != 0)
    return warn(
        facts,
        fmt::format("{} is missing on {} (the ranks there run without the engine); install ddlrun there",
                    shim, world.host));
  if (!can_be_preloaded(shim))
    return warn(
        facts, fmt::format("{} cannot be preloaded (LD_PRELOAD knows neither blanks nor colons in names, the "
                           "job runs without the engine); install ddlrun under another path",
                           shim));
  setenv("LD_PRELOAD", preload_list(shim, world.variable("LD_PRELOAD")).c_str(), 1);
  setenv("ASAN_OPTIONS", asan_options(world.variable("ASAN_OPTIONS")).c_str(), 1);
}

void warn_if_out_of_reach(const RankFacts& facts, const std::string& file) {
  Preloadable verdict = judge_program(file);
  if (verdict == Preloadable::statically)
    warn(facts, fmt::format(
                    "{} is statically linked (nothing of it can be intercepted, it runs without the engine); "
                    "link it dynamically",
                    file));
  if (verdict == Preloadable::privileged)
    warn(facts,
         fmt::format("{} is setuid or setgid (the dynamic linker then ignores the shim, it runs without the "
                     "engine); run a copy without these bits",
                     file));
}

// Looking at the host takes a process and some time, and a line about GPUs is noise to a program that uses
// none. So only where GPUs are known to matter, by the program's own symbols or by --accelerators, or where
// the user wants to hear more (-v). A python program shows nothing in its symbols: then the front, at run
// time and with DDL_VERBOSE=1, is the one to say it.
void tell_of_shared_gpus(const ExecOptions& options, const RankFacts& facts, const System& world,
                         const std::string& file) {
  if (facts.local_rank.value_or(0) != 0 || facts.local_size.value_or(1) < 2) return;
  GpuUse use = gpu_use(file);
  if (use.nccl_inside || !(use.cuda || options.tell_gpus)) return;
  auto node = probe_this_machine(this_installation(), kPatience);
  if (!node) return;
  std::string line = sharing_line(static_cast<std::size_t>(*facts.local_size), *node, world);
  if (!line.empty()) print_note(line);
}

// Open MPI 4 reads the machine's whole topology, 30 ms, in the MPI_Init of a rank that it takes for unbound.
// Its mpirun names the ranks that it has bound by this variable.
void bind(const ExecOptions& options, const RankFacts& facts, const System& world) {
  const std::vector<int> cpus = choose_cpus(usable_cores(), facts);
  const bool is_bound = !cpus.empty() && bind_to_cpus(cpus);
  // It may have been set for a rank of another job that starts this one.
  constexpr const char* kIsBound = "OMPI_MCA_orte_bound_at_launch";
  is_bound ? setenv(kIsBound, "1", 1) : unsetenv(kIsBound);
  if (options.report_bindings)
    print_note(fmt::format("rank {} on {} is {}", facts.rank.value_or(0), world.host,
                           is_bound ? "bound to CPUs " + cpu_list_text(cpus) : "not bound"));
}

std::string first_bytes(const std::string& file, std::size_t most) {
  std::string start(most, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(start.data(), static_cast<std::streamsize>(most));
  start.resize(static_cast<std::size_t>(stream.gcount()));
  return start;
}

int become(const ExecOptions& options, const std::string& file) {
  std::vector<char*> argv;
  for (const std::string& word : options.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // A name with a slash is kept, which a script reads as $0. No search in either case; without #! it gets
  // /bin/sh, but for what is a program of another machine, or nothing at all.
  const std::string& name = options.command[0];
  const std::string started = name.find('/') == std::string::npos ? file : name;
  const std::string start = first_bytes(file, 4);
  const bool may_be_script = !start.empty() && start != "\177ELF";
  (may_be_script ? execvp : execv)(started.c_str(), argv.data());
  int reason = errno;
  print_error(
      fmt::format("cannot execute {} ({}); check the file and its interpreter", file, std::strerror(reason)));
  return reason == ENOENT ? 127 : 126;
}

int run(const Strings& args) {
  ExecOptions options = parse(args);
  set_all(options.variables);
  System world = this_system();
  RankFacts facts = read_rank_facts(world);
  const std::string& name = options.command[0];
  const ProgramSearch search{options.path, world.variable("PATH"), world.directory};
  const std::string file = find_program(name, search);
  if (file.empty()) {
    const ProgramTrouble trouble = trouble_with_program(name, search).value();
    print_error(
        fmt::format("{} {} on {} ({}); {}", name, trouble.problem, world.host, trouble.reason, trouble.cure));
    return trouble.is_there ? 126 : 127;
  }
  if (options.bind_cores) bind(options, facts, world);
  const Assignments variables = rank_variables(facts, options.master, world);
  if (options.verbose && facts.rank == 0)
    if (std::string text = stale_variables_text(variables, world); !text.empty()) print_note(text);
  set_all(variables);
  warn_if_out_of_reach(facts, file);
  tell_of_shared_gpus(options, facts, world, file);
  preload_shim(facts, world);  // last: what is started before must run without it
  return become(options, file);
}

}  // namespace
}  // namespace ddl

int main(int argc, char** argv) {
  ddl::set_speaker("ddl-exec");
  try {
    return ddl::run(ddl::Strings(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    ddl::print_error(error.what());
    return ddl::kExitUsage;
  }
}
