#include "launcher/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "core/tune/ddl_options.hpp"
#include "launcher/hostlist.hpp"
#include "launcher/mpirun_options.hpp"
#include "launcher/other_launchers.hpp"

namespace ddl {
namespace {

enum class Takes { nothing, a_value, perhaps };  // perhaps: only as --name=value

struct OwnOption {
  Strings names;
  Takes takes;
  std::function<void(Options&, const std::string&)> apply;
};

std::uint64_t positive(const std::string& option, const std::string& text) {
  constexpr std::uint64_t kMost = 10'000'000;
  std::uint64_t value = 0;
  try {
    value = parse_number(text);
  } catch (const UsageError&) {
  }
  if (value == 0 || value > kMost)
    throw UsageError(fmt::format("{} {} is not understood", option, text), "it counts from 1",
                     "give a whole number of at least 1");
  return value;
}

void set_mode(Options& options, const std::string& mode) {
  if (!parse_mode(mode))
    throw UsageError(fmt::format("mode '{}' is not understood", mode), "the engine would not know what to do",
                     "write one of p r b n m c, perhaps with dimensions: -m b:4x2");
  options.mode = mode;
}

void set_help_env(Options& options, const std::string& form) {
  if (!form.empty() && form != "markdown")
    throw UsageError(fmt::format("--help-env={} is not understood", form), "",
                     "write --help-env or --help-env=markdown");
  options.action = form.empty() ? Action::show_env_help : Action::show_env_markdown;
}

void set_topology(Options& options, const std::string& file) {
  auto ends = [&](const std::string& tail) {
    return file.size() > tail.size() && file.compare(file.size() - tail.size(), tail.size(), tail) == 0;
  };
  if (!file.empty() && !ends(".svg") && !ends(".json"))
    throw UsageError(fmt::format("--topology={} is not understood", file),
                     "the file's ending chooses the form",
                     "name it *.svg or *.json, or leave it out for text");
  options.topology = true;
  options.topology_file = file;
}

[[noreturn]] void not_in_this_version(const std::string& option) {
  throw UsageError(fmt::format("--{} is not available in this version", option), "", "leave it out");
}

const std::vector<OwnOption>& own_options() {
  using O = Options&;
  using V = const std::string&;
  static const std::vector<OwnOption> table = {
      {{"help", "h"}, Takes::nothing, [](O o, V) { o.action = Action::show_help; }},
      {{"help-env"}, Takes::perhaps, set_help_env},
      {{"version", "V"}, Takes::nothing, [](O o, V) { o.action = Action::show_version; }},
      {{"v", "verbose"}, Takes::nothing, [](O o, V) { o.verbose = true; }},
      {{"s", "skip-checks", "skipchecks"}, Takes::nothing, [](O o, V) { o.skip_checks = true; }},
      {{"t", "tcp"}, Takes::nothing, [](O o, V) { o.tcp = true; }},
      {{"dry-run"}, Takes::nothing, [](O o, V) { o.dry_run = true; }},
      {{"compare"}, Takes::nothing, [](O o, V) { o.compare = true; }},
      {{"report"}, Takes::a_value, [](O o, V v) { o.report_file = v; }},
      {{"topology"}, Takes::perhaps, set_topology},
      {{"explain"}, Takes::nothing, [](O o, V) { o.explain = true; }},
      {{"timeline"}, Takes::a_value, [](O, V) { not_in_this_version("timeline"); }},
      {{"m", "mode"}, Takes::a_value, set_mode},
      {{"ddlarg", "ddloption"}, Takes::a_value, [](O o, V v) { o.ddl_args.push_back(v); }},
      {{"no_ddloptions", "no-ddloptions"}, Takes::nothing, [](O o, V) { o.no_ddl_options = true; }},
      {{"aisles"}, Takes::a_value, [](O o, V v) { o.aisles = positive("--aisles", v); }},
      {{"racks"}, Takes::a_value, [](O o, V v) { o.racks = positive("--racks", v); }},
      {{"nodes"}, Takes::a_value, [](O o, V v) { o.nodes = positive("--nodes", v); }},
      {{"accelerators"}, Takes::a_value, [](O o, V v) { o.accelerators = positive("--accelerators", v); }},
      {{"mpiarg", "mpiargs"},
       Takes::a_value,
       [](O o, V v) {
         Strings words = split_shell_words(v);
         o.mpi_args.insert(o.mpi_args.end(), words.begin(), words.end());
       }},
  };
  return table;
}

const OwnOption* find_own_option(const std::string& name) {
  const auto& table = own_options();
  auto row = std::find_if(table.begin(), table.end(), [&](const OwnOption& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  });
  return row == table.end() ? nullptr : &*row;
}

UsageError unknown_option(const std::string& word, const std::string& name) {
  Strings names = mpirun_option_names();
  for (const OwnOption& option : own_options())
    for (const std::string& own : option.names) names.push_back(with_dashes(own));
  const std::string guess = meant("--" + name, names);
  return UsageError(fmt::format("unknown option {}", word), "ddlrun does not know it",
                    fmt::format("{}--mpiarg \"{}\" passes it on to mpirun (ddlrun --help)",
                                guess.empty() ? "" : "did you mean " + guess + "? ", word));
}

// The options mpirun would misread, checked before anything starts.
void check_passed(const PassedOption& option) {
  if (is_rank_count(option.name) || option.name == "N" || option.name == "npernode" ||
      option.name == "npersocket")
    positive(option.word, option.values[0]);
  if (is_host_list(option.name)) parse_host_list(option.values[0]);
  if (option.name == "x") parse_env({option.values[0]});
}

// Rank 0 writes one.
void check_reports(const Options& options) {
  if (options.report_file.empty() || options.report_file == "-") return;
  for (const std::string& entry : options.values_of([](std::string_view name) { return name == "x"; }))
    if (entry.starts_with("DDL_REPORT="))
      throw UsageError(fmt::format("--report {} and -x {} name a report each", options.report_file, entry),
                       "only one is written", "leave one of them out");
}

// Reads the words once, left to right.
class Parser {
 public:
  Parser(Strings words, const FileReader& read) : words_(std::move(words)), read_(read) {}

  Options parse() {
    while (options_.action == Action::run && read_context()) {
    }
    check_reports(options_);
    return std::move(options_);
  }

 private:
  // One program with its options; false behind the last one.
  bool read_context() {
    bool has_options = false;
    options_.apps.emplace_back();
    while (at_ < words_.size()) {
      const std::string word = words_[at_];  // --app replaces the words
      if (word == ":" && !has_options) {     // nothing before it, as mpirun allows
        ++at_;
        continue;
      }
      if (word == ":") throw UsageError("no program before ':'", "", "write program [args] : program [args]");
      if (word == "--") {
        ++at_;
        return read_program();
      }
      if (word.size() < 2 || word[0] != '-') return read_program();
      ++at_;
      read_option(word);
      has_options = true;
      if (options_.action != Action::run) return false;
    }
    if (!has_options && options_.apps.size() > 1) {  // nor behind the last
      options_.apps.pop_back();
      return false;
    }
    return read_program();
  }

  // The program and its arguments; true when another context follows.
  bool read_program() {
    AppContext& app = options_.apps.back();
    if (at_ == words_.size()) {
      if ((options_.topology || options_.explain) && options_.apps.size() == 1) return false;
      throw UsageError("no program is given", "there is nothing to start",
                       "write ddlrun [options] program [args]");
    }
    app.program = words_[at_++];
    if (app.program.empty())
      throw UsageError("the program's name is empty", "", "write ddlrun [options] program [args]");
    while (at_ < words_.size() && words_[at_] != ":") app.args.push_back(words_[at_++]);
    return at_ < words_.size() && words_[at_++] == ":";
  }

  void read_option(const std::string& word) {
    std::string name = word.substr(word[1] == '-' ? 2 : 1);
    std::optional<std::string> attached;
    if (std::size_t equals = name.find('='); equals != std::string::npos) {
      attached = name.substr(equals + 1);
      name.resize(equals);
    }
    if (const OwnOption* own = find_own_option(name)) return read_own(*own, word, attached);
    const std::string bare = word.substr(0, word.find('='));
    if (name == "app") return read_app_file(attached ? *attached : next_value(word));
    if (const MpirunOption* passed = find_mpirun_option(name)) return read_passed(*passed, bare, attached);
    if (const OtherOption* other = find_other_option(name)) return read_other(*other, bare, attached);
    throw unknown_option(word, name);
  }

  // The programs of the file take the place of the command line's.
  void read_app_file(const std::string& file) {
    if (at_ < words_.size())
      throw UsageError(fmt::format("'{}' comes behind --app {}", words_[at_], file),
                       "the file names the programs",
                       "put options in front of --app and programs into the file");
    if (std::exchange(in_app_file_, true))
      throw UsageError(fmt::format("{} has an --app of its own", file), "",
                       "write its lines into the first file");
    auto text = read_ ? read_(file) : std::nullopt;
    if (!text)
      throw UsageError(fmt::format("the file {} of --app cannot be read", file), "it names the programs",
                       "check its name and permissions");
    words_.clear();
    at_ = 0;
    for (const std::string& line : split(*text, '\n')) {
      Strings words = split_commented_words(line);
      if (words.empty()) continue;
      if (!words_.empty()) words_.push_back(":");
      words_.insert(words_.end(), words.begin(), words.end());
    }
  }

  void read_other(const OtherOption& row, const std::string& word,
                  const std::optional<std::string>& attached) {
    if (!row.answer.empty())
      throw UsageError(fmt::format("{} is an option of another launcher", word), "", std::string(row.answer));
    for (PassedOption& option : in_mpirun_words(row, values_of(word, row.values, attached))) {
      check_passed(option);
      options_.apps.back().options.push_back(std::move(option));
    }
  }

  void read_own(const OwnOption& option, const std::string& word,
                const std::optional<std::string>& attached) {
    std::string value = attached.value_or("");
    if (attached && option.takes == Takes::nothing)
      throw UsageError(fmt::format("{} takes no value", word.substr(0, word.find('='))), "",
                       "leave out what follows '='");
    if (!attached && option.takes == Takes::a_value) value = next_value(word);
    if (option.takes == Takes::a_value && value.empty())
      throw UsageError(fmt::format("the value of {} is empty", word), "", "give one");
    option.apply(options_, value);
  }

  void read_passed(const MpirunOption& row, const std::string& word,
                   const std::optional<std::string>& attached) {
    if (!row.refused.empty())
      throw UsageError(fmt::format("{} cannot be used with ddlrun", word), std::string(row.refused),
                       "leave it out");
    PassedOption option{word, std::string(row.name), values_of(word, row.values, attached)};
    check_passed(option);
    options_.apps.back().options.push_back(std::move(option));
  }

  Strings values_of(const std::string& word, int wanted, const std::optional<std::string>& attached) {
    Strings values;
    if (attached) values.push_back(*attached);
    if (static_cast<int>(values.size()) > wanted)
      throw UsageError(fmt::format("{} takes no value", word), "", "leave out what follows '='");
    while (static_cast<int>(values.size()) < wanted) values.push_back(next_value(word));
    return values;
  }

  std::string next_value(const std::string& word) {
    if (at_ == words_.size())
      throw UsageError(fmt::format("{} needs a value", word), "the command line ends behind it",
                       "give one (ddlrun --help)");
    return words_[at_++];
  }

  Strings words_;
  const FileReader& read_;
  std::size_t at_ = 0;
  bool in_app_file_ = false;
  Options options_;
};

}  // namespace

Strings Options::values_of(bool (*wanted)(std::string_view)) const {
  Strings values;
  for (const AppContext& app : apps)
    for (const PassedOption& option : app.options)
      if (wanted(option.name)) values.insert(values.end(), option.values.begin(), option.values.end());
  return values;
}

std::vector<PassedOption> Options::all_passed() const {
  std::vector<PassedOption> all = passed_options(mpi_args);
  for (const AppContext& app : apps) all.insert(all.end(), app.options.begin(), app.options.end());
  return all;
}

std::vector<PassedOption> passed_options(const Strings& words) {
  std::vector<PassedOption> found;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string& word = words[at];
    const std::size_t start = word.find_first_not_of('-');
    if (start == 0 || start == std::string::npos) continue;
    const MpirunOption* row = find_mpirun_option(std::string_view(word).substr(start));
    if (!row || words.size() - at <= static_cast<std::size_t>(row->values)) continue;
    PassedOption option{word, std::string(row->name), {}};
    for (int i = 0; i < row->values; ++i) option.values.push_back(words[++at]);
    found.push_back(std::move(option));
  }
  return found;
}

Options parse_options(const Strings& args, const FileReader& read) { return Parser(args, read).parse(); }

}  // namespace ddl
