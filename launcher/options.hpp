// The command line as a value. `ddlrun [options] program [args…] [: [options] program [args…]]…`
//
// Options take one or two dashes. The program is the first word that is neither an option nor an option's
// value; everything behind it, up to a lone `:`, is the program's. mpirun's options keep their order and
// spelling. A table of our own rather than a command-line library: those know neither single-dash long
// options, nor two values (`--mca k v`), nor an order that must be kept. Pure; bad input throws UsageError.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/strings.hpp"

namespace ddl {

/// One of mpirun's options as the user wrote it.
struct PassedOption {
  std::string word;  // as written: "-wdir"
  std::string name;  // without dashes: "wdir"
  Strings values;
};

/// mpirun's options among words that ddlrun does not read itself.
std::vector<PassedOption> passed_options(const Strings& words);

/// One program of the job with its own options.
struct AppContext {
  std::vector<PassedOption> options;
  std::string program;  // "" when none was given (allowed with --topology and --explain)
  Strings args;
};

enum class Action { run, show_help, show_env_help, show_env_markdown, show_version };

struct Options {
  Action action = Action::run;
  std::vector<AppContext> apps;  // at least one after parsing, except for the show_* actions
  Strings mpi_args;              // from --mpiarg, split into words
  std::string mode;              // IBM's mode letter, perhaps with dimensions; "" none
  Strings ddl_args;              // added to DDL_OPTIONS
  bool no_ddl_options = false;
  std::optional<std::uint64_t> aisles, racks, nodes, accelerators;
  std::uint64_t ranks_per_host = 0;     // from --accelerators, where nothing else counts the ranks
  std::uint64_t expected_per_host = 0;  // for -racks and -aisles without --accelerators
  bool tcp = false, verbose = false, skip_checks = false, dry_run = false, compare = false;
  bool topology = false, explain = false;
  std::string topology_file;  // "" text on the terminal
  std::string report_file;

  bool has_program() const { return !apps.empty() && !apps.front().program.empty(); }
  /// Every value given to the options that `wanted` selects by name, over all programs.
  Strings values_of(bool (*wanted)(std::string_view)) const;
  /// mpirun's options for all programs, those in --mpiarg in front.
  std::vector<PassedOption> all_passed() const;
};

/// The text of a file, if readable: for --app FILE, whose lines are programs with their options.
using FileReader = std::function<std::optional<std::string>(const std::string&)>;

Options parse_options(const Strings& args, const FileReader& read = {});

}  // namespace ddl
