#include "core/tune/ddl_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    refuse(fmt::format("{} takes a number, not '{}'", word, text));
  return value;
}

// "b:4x2x2"
void set_mode(DdlOptions& options, const std::string& text) {
  constexpr std::string_view kModes = "pbnrmc";
  if (text.empty() || kModes.find(text[0]) == std::string_view::npos || (text.size() > 1 && text[1] != ':'))
    refuse(fmt::format("mode '{}' is not one of p b n r m, with dimensions as in b:4x2", text));
  // IBM never said what mode c was; it took dimensions as b does.
  options.mode = text[0] == 'c' ? Mode::blue : static_cast<Mode>(text[0]);
  options.dims.clear();
  if (text.size() < 2) return;
  for (const std::string& dim : split(text.substr(2), 'x')) {
    std::uint64_t extent = number("a dimension of -mode", dim);
    if (extent == 0 || extent > 1'000'000) refuse(fmt::format("dimension {} of mode '{}'", extent, text));
    options.dims.push_back(static_cast<Rank>(extent));
  }
}

}  // namespace

DdlOptions parse_ddl_options(const std::string& text, Rank ranks) {
  DdlOptions options;
  std::istringstream words(text);
  std::string word, value;
  bool any = false, has_mode = false;
  while (words >> word) {
    any = true;
    std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
    if (name.size() == word.size()) refuse(fmt::format("'{}' is not an option", word));
    if (!(words >> value)) refuse(fmt::format("{} lacks its value", word));
    if (name == "mode") {
      set_mode(options, value), has_mode = true;
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

}  // namespace ddl
