#include "core/base/env.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/base/error.hpp"

extern char** environ;

namespace ddl {
namespace {

template <class T>
struct Parse;

template <>
struct Parse<bool> {
  static bool from(std::string_view text) {
    if (text != "0" && text != "1") throw UsageError("not 0 or 1");
    return text == "1";
  }
};

template <>
struct Parse<std::uint64_t> {
  // Bytes and plain numbers share one type; a suffix is harmless for a number and needed for bytes.
  static std::uint64_t from(std::string_view text) { return parse_bytes(text); }
};

template <>
struct Parse<double> {
  static double from(std::string_view text) {
    double value = 0;
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value < 1e9))
      throw UsageError("not a number from 0 to 1e9");
    return value;
  }
};

template <>
struct Parse<std::string> {
  static std::string from(std::string_view text) { return std::string(text); }
};

template <>
struct Parse<Wire> {
  static Wire from(std::string_view text) {
    if (text == "auto") return Wire::automatic;
    if (text == "ucx") return Wire::ucx;
    if (text == "tcp") return Wire::tcp;
    throw UsageError("no such wire");
  }
};

template <>
struct Parse<WireType> {
  static WireType from(std::string_view text) {
    for (int t = 0; t < kWireTypes; ++t)
      if (text == name_of(static_cast<WireType>(t))) return static_cast<WireType>(t);
    throw UsageError("no float travels as that");
  }
};

template <>
struct Parse<WireWhere> {
  static WireWhere from(std::string_view text) {
    for (int w = 0; w < kWireWheres; ++w)
      if (text == name_of(static_cast<WireWhere>(w))) return static_cast<WireWhere>(w);
    throw UsageError("nothing travels there");
  }
};

template <>
struct Parse<std::vector<int>> {
  static std::vector<int> from(std::string_view text) {
    std::vector<int> numbers;
    if (text.empty()) return numbers;
    for (const std::string& word : split(text, ',')) {
      std::uint64_t number = parse_number(word);
      if (number == 0 || number > 1'000'000) throw UsageError("a number is out of range");
      numbers.push_back(static_cast<int>(number));
    }
    return numbers;
  }
};

// BYTES, RANKS:BYTES and RANKS:never, separated by commas; what is not named is as by default.
template <>
struct Parse<BytesByRanks> {
  static BytesByRanks from(std::string_view text) {
    BytesByRanks read{64 << 10};
    for (const std::string& word : split(text, ',')) {
      const std::size_t colon = word.find(':');
      if (colon == std::string::npos) {
        read.others = parse_bytes(word);
        continue;
      }
      const std::string bytes = word.substr(colon + 1);
      const std::vector<int> numbers = Parse<std::vector<int>>::from(word.substr(0, colon));
      if (numbers.size() != 1) throw UsageError("a number of ranks is missing");
      const Rank ranks = numbers[0];
      if (std::any_of(read.exceptions.begin(), read.exceptions.end(),
                      [&](const auto& one) { return one.ranks == ranks; }))
        throw UsageError("a number of ranks is named twice");
      read.exceptions.push_back({ranks, bytes == "never" ? BytesByRanks::kNever : parse_bytes(bytes)});
    }
    return read;
  }
};

template <class T>
T parse_value(std::string_view name, std::string_view text, std::string_view allowed) {
  try {
    return Parse<T>::from(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}={} is not understood", name, text), error.what(),
                     fmt::format("allowed: {}", allowed));
  }
}

// What a default written in the table looks like as text.
std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"') return text.substr(1, text.size() - 2);
  if (text == "true") return "1";
  if (text == "false") return "0";
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// `name` is in the table.
UsageError out_of_range(std::string_view name, std::string_view value) {
  auto row = std::find_if(env_table().begin(), env_table().end(),
                          [&](const EnvRow& one) { return one.name == name; });
  return UsageError(fmt::format("{}={} is out of range", name, value), "the engine could not work with it",
                    fmt::format("allowed: {}", row->allowed));
}

void check_range(std::string_view name, Bytes value, Bytes least, Bytes most) {
  if (value < least || value > most) throw out_of_range(name, std::to_string(value));
}

void check_ranges(const Env& env) {
  check_range("DDL_VERBOSE", env.verbose, 0, 3);
  if (!(env.sparse > 0 && env.sparse <= 1)) throw out_of_range("DDL_SPARSE", fmt::format("{:g}", env.sparse));
  check_range("DDL_STAGING_BYTES", env.staging_bytes, 64 << 10, 1 << 30);
  if (env.segment_bytes != 0) check_range("DDL_SEGMENT_BYTES", env.segment_bytes, 64 << 10, 64 << 20);
  check_range("DDL_PORT", env.port, 0, 65535);
  check_range("DDL_GPU_HOST_THREADS", env.gpu_host_threads, 0, 4);
  if (env.gpu_staging_bytes != 0)
    check_range("DDL_GPU_STAGING_BYTES", env.gpu_staging_bytes, 64 << 10, Bytes{4} << 30);
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const EnvRow& row : env_table()) names.emplace_back(row.name);
  return names;
}

// Names that mark something and tune nothing: the process that owns the engine, a virtual host, a run of
// --compare that only wants to know how long the program takes.
constexpr std::string_view kInternalNames[] = {"DDL_OWNER_PID", "DDL_VCLUSTER", "DDL_TIMES_ONLY"};
constexpr std::string_view kTestPrefix = "DDL_TEST_";  // for the programs of the test suite

bool is_known_name(std::string_view name) {
  if (name.substr(0, kTestPrefix.size()) == kTestPrefix) return true;
  return std::any_of(env_table().begin(), env_table().end(),
                     [&](const EnvRow& row) { return row.name == name; }) ||
         std::find(std::begin(kInternalNames), std::end(kInternalNames), name) != std::end(kInternalNames);
}

}  // namespace

Env::Env()
    :
#define DDL_VAR(name, type, member, fallback, allowed, text) member(Parse<type>::from(unquoted(#fallback))),
#include "core/base/env_vars.def"
#undef DDL_VAR
      warnings() {
}

const std::vector<EnvRow>& env_table() {
  static const std::vector<EnvRow> table = {
#define DDL_VAR(name, type, member, fallback, allowed, text) \
  {#name, #type, unquoted(#fallback), allowed, text},
#include "core/base/env_vars.def"
#undef DDL_VAR
  };
  return table;
}

bool set_variable(Env& env, std::string_view name, std::string_view value) {
#define DDL_VAR(row, type, member, fallback, allowed, text) \
  if (name == #row) return env.member = parse_value<type>(name, value, allowed), check_ranges(env), true;
#include "core/base/env_vars.def"
#undef DDL_VAR
  return false;
}

GradientSettings gradient_settings(const Env& env) {
  return {env.wire_type,
          env.wire_type_where,
          env.wire_type_from,
          env.lazy_bytes,
          {env.sparse, env.sparse_from, env.sparse_warm_up, env.sparse_memory}};
}

Env parse_env(const std::vector<std::string>& entries) {
  Env env;
  for (const std::string& entry : entries) {
    if (entry.rfind("DDL_", 0) != 0) continue;
    std::size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
    if (!set_variable(env, name, value) && !is_known_name(name))
      env.warnings.push_back(
          fmt::format("unknown variable {} is ignored; did you mean {}? (ddlrun --help-env)", name,
                      nearest(name, known_names())));
  }
  return env;
}

Env load_env() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry)
    if (std::strncmp(*entry, "DDL_", 4) == 0) entries.emplace_back(*entry);
  return parse_env(entries);
}

std::string foreign_env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string launcher_rank() {
  for (const char* name : {"PMIX_RANK", "RANK"})
    if (std::string rank = foreign_env(name); !rank.empty()) return rank;
  return "";
}

std::string env_markdown() {
  std::string page =
      "# Environment variables\n\n"
      "Generated from `core/base/env_vars.def`; a test compares this page with the table.\n"
      "A garbage value is an error that names the allowed ones; an unknown `DDL_*` name is a warning.\n\n"
      "| variable | values | default | what it does |\n|---|---|---|---|\n";
  for (const EnvRow& row : env_table()) {
    std::string allowed;
    for (char c : row.allowed) allowed += c == '|' ? std::string("\\|") : std::string(1, c);
    page +=
        fmt::format("| `{}` | {} | {} | {} |\n", row.name, allowed,
                    row.fallback.empty() ? std::string("–") : fmt::format("`{}`", row.fallback), row.text);
  }
  return page;
}

std::string env_help() {
  std::string page =
      "Variables that tune the engine (set them with -x NAME=VALUE or in the environment):\n\n";
  for (const EnvRow& row : env_table())
    page += fmt::format("  {} = {}{}\n      {}\n", row.name, row.allowed,
                        row.fallback.empty() ? std::string() : fmt::format("   [default {}]", row.fallback),
                        row.text);
  return page;
}

std::uint64_t parse_number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failed != std::errc{} || end != text.data() + text.size())
    throw UsageError(fmt::format("'{}' is not a whole number", text));
  return value;
}

Bytes parse_bytes(std::string_view text) {
  Bytes unit = 1;
  if (!text.empty()) {
    switch (text.back() | 0x20) {
      case 'k':
        unit = 1024;
        break;
      case 'm':
        unit = 1024 * 1024;
        break;
      case 'g':
        unit = 1024 * 1024 * 1024;
        break;
      default:
        break;
    }
  }
  if (unit != 1) text.remove_suffix(1);
  Bytes value = parse_number(text);
  if (value > ~Bytes{0} / unit) throw UsageError(fmt::format("'{}' is too large", text));
  return value * unit;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  auto closer = [&](const std::string& a, const std::string& b) {
    return edit_distance(word, a) < edit_distance(word, b);
  };
  auto best = std::min_element(candidates.begin(), candidates.end(), closer);
  return best == candidates.end() ? std::string() : *best;
}

std::string meant(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string best = nearest(word, candidates);
  return 3 * edit_distance(word, best) <= word.size() ? best : std::string();
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (true) {
    std::size_t at = text.find(separator);
    words.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return words;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string> wanted_rails(const Env& env) {
  std::vector<std::string> rails;
  for (const std::string& word : split(env.rails, ',')) {
    std::size_t begin = word.find_first_not_of(' '), end = word.find_last_not_of(' ');
    if (begin != std::string::npos) rails.push_back(word.substr(begin, end + 1 - begin));
  }
  return rails;
}

}  // namespace ddl
