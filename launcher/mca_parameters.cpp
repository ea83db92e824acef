#include "launcher/mca_parameters.hpp"

#include <algorithm>

#include "core/base/env.hpp"

namespace ddl {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
}

// Without comments and blanks around.
Strings lines_of(const std::string& file, const System& world) {
  Strings lines;
  if (auto text = world.file(absolute_path(file, world.directory)))
    for (const std::string& line : split(*text, '\n'))
      if (std::string words = trimmed(line); !words.empty() && words[0] != '#') lines.push_back(words);
  return lines;
}

void add_options(McaParameters& set, const std::vector<PassedOption>& options) {
  for (const PassedOption& option : options)
    if (option.values.size() == 2 && option.name.ends_with("mca"))
      set.push_back({option.values[0], option.values[1]});
}

// `name = value` in each line, or, with --tune, mpirun's own options.
void add_file(McaParameters& set, const std::string& file, const System& world) {
  for (const std::string& line : lines_of(file, world)) {
    const std::size_t equals = line.find('=');
    if (line[0] == '-')
      add_options(set, passed_options(split_shell_words(line)));
    else if (equals != std::string::npos)
      set.push_back({trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1))});
  }
}

}  // namespace

McaParameters mca_parameters(const Options& options, const System& world) {
  McaParameters set;
  const std::string home = world.variable("HOME");
  for (const char* project : {"openmpi", "prte"}) {
    for (const std::string& folder : world.mpirun_folders)
      add_file(set, folder + "/" + project + "-mca-params.conf", world);
    add_file(set, home + "/." + project + "/mca-params.conf", world);
  }
  const std::vector<PassedOption> passed = options.all_passed();
  for (const PassedOption& option : passed)
    if (option.name == "tune" || option.name == "am" || option.name == "amca")
      for (const std::string& file : split(option.values[0], ',')) add_file(set, file, world);
  for (const std::string& entry : world.mca_entries) {
    const std::size_t name = entry.find("_MCA_") + 5, equals = entry.find('=');
    set.push_back({entry.substr(name, equals - name), entry.substr(equals + 1)});
  }
  add_options(set, passed);
  return set;
}

std::string value_of(const McaParameters& parameters, std::initializer_list<std::string_view> names) {
  const auto last = std::find_if(parameters.rbegin(), parameters.rend(), [&](const McaParameter& parameter) {
    return std::find(names.begin(), names.end(), parameter.name) != names.end();
  });
  return last == parameters.rend() ? std::string() : last->value;
}

std::string default_hostfile(const Options& options, const System& world) {
  Strings files = options.values_of([](std::string_view name) { return name == "default-hostfile"; });
  files.push_back(
      value_of(mca_parameters(options, world), {"orte_default_hostfile", "prte_default_hostfile"}));
  for (const std::string& folder : world.mpirun_folders)
    for (const char* project : {"openmpi", "prte"})
      files.push_back(folder + "/" + project + "-default-hostfile");
  for (const std::string& file : files)
    if (!lines_of(file, world).empty()) return file;
  return {};
}

}  // namespace ddl
