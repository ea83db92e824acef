#include "core/tune/ddl_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw UsageError(fmt::format("DDL_OPTIONS: {}", what), "the plan of every collective depends on it",
                   "write for example DDL_OPTIONS=\"-mode b:4x2 -dump_iter 100\"");
}

std::uint64_t number(const std::string& word, const std::string& text) {
  try {
    return parse_number(text);
  } catch (const UsageError&) {
    refuse(fmt::format("{} takes a number, not '{}'", word, text));
  }
}

// Words of ours, each a variable without DDL_ and in small letters.
constexpr std::string_view kVariables[] = {"wire_type", "wire_type_where", "wire_type_from", "lazy_bytes",
                                           "sparse",    "sparse_from",     "sparse_warm_up", "sparse_memory"};

std::string variable_of(std::string_view name) {
  std::string variable = "DDL_";
  for (char c : name) variable += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

bool names_variable(const std::string& name) {
  return std::find(std::begin(kVariables), std::end(kVariables), name) != std::end(kVariables);
}

}  // namespace

std::optional<ModeWord> parse_mode(const std::string& word) {
  constexpr std::string_view kModes = "pbnrmc";
  constexpr std::uint64_t kMost = 1'000'000;
  if (word.empty() || kModes.find(word[0]) == std::string_view::npos || (word.size() > 1 && word[1] != ':'))
    return std::nullopt;
  // IBM never said what mode c was; it took dimensions as b does.
  ModeWord read{word[0] == 'c' ? Mode::blue : static_cast<Mode>(word[0]), {}};
  if (word.size() < 2) return read;
  for (const std::string& dim : split(word.substr(2), 'x')) {
    std::uint64_t extent = 0;
    try {
      extent = parse_number(dim);
    } catch (const UsageError&) {
    }
    if (extent == 0 || extent > kMost) return std::nullopt;
    read.dims.push_back(static_cast<Rank>(extent));
  }
  return read;
}

DdlOptions parse_ddl_options(const std::string& text, Rank ranks) {
  DdlOptions options;
  std::istringstream words(text);
  std::string word, value;
  bool any = false, has_mode = false;
  while (words >> word) {
    std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    if (name.size() == word.size()) refuse(fmt::format("'{}' is not an option", word));
    if (!(words >> value)) refuse(fmt::format("{} lacks its value", word));
    if (names_variable(name)) {
      Env checked;
      set_variable(checked, variable_of(name), value);
      options.variables.emplace_back(variable_of(name), value);
      continue;
    }
    any = true;
    if (name == "mode") {
      std::optional<ModeWord> read = parse_mode(value);
      if (!read)
        refuse(fmt::format("mode '{}' is not one of p b n r m, perhaps with dimensions as in b:4x2", value));
      options.mode = read->mode, options.dims = std::move(read->dims), has_mode = true;
    } else if (name == "dump_iter") {
      options.dump_iter = number(word, value);
    } else if (name == "dbg_level") {
      options.dbg_level = number(word, value);
    } else if (name == "dev_sync" || name == "rebind_iter") {
      number(word, value);
      options.ignored.push_back(word);
    } else {
      refuse(fmt::format("'{}' is unknown", word));
    }
  }
  if (any && !has_mode) {
    options.mode = Mode::ring;
    options.dims = {ranks};
  }
  return options;
}

Env with_options(Env env) {
  for (const auto& [name, value] : parse_ddl_options(env.options, 1).variables)
    set_variable(env, name, value);
  return env;
}

Grid grid_of(const DdlOptions& options, std::span<const HostIndex> hosts, std::span<const int> numa_nodes) {
  Elements product = 1;
  for (Rank extent : options.dims) product *= static_cast<Elements>(extent);
  bool fits = !options.dims.empty() && product == hosts.size();
  if (fits) return Grid::from_dims(hosts, options.dims);
  return numa_nodes.empty() ? Grid::from_hosts(hosts) : Grid::from_nodes(hosts, numa_nodes);
}

}  // namespace ddl
