// The DDL_* variables of this process as one typed value, and the one place where core asks for a variable.
//
// The rule a user can break: read the environment once (load_env) and pass the value on; nothing on the path
// of a collective reads it again.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/gradient_settings.hpp"

namespace ddl {

/// What carries bytes between hosts.
enum class Wire : std::uint8_t { automatic, ucx, tcp };

/// Every variable of env_vars.def as a member, with its default.
struct Env {
#define DDL_VAR(name, type, member, fallback, allowed, text) type member;
#include "core/base/env_vars.def"
#undef DDL_VAR
  std::vector<std::string> warnings;  // unknown DDL_* names, each with the nearest known one
  Env();
};

/// One row of the table, as text: what `--help-env` and docs/environment.md print.
struct EnvRow {
  std::string_view name, type, fallback, allowed, text;
};
const std::vector<EnvRow>& env_table();

/// Parses `NAME=VALUE` entries; those that do not start with DDL_ are skipped. An unknown DDL_* name is a
/// warning in the result, a garbage value throws UsageError naming the allowed ones.
Env parse_env(const std::vector<std::string>& entries);

/// Sets one of them, as parse_env does; false where there is none of that name.
bool set_variable(Env& env, std::string_view name, std::string_view value);
/// What the variables ask for.
GradientSettings gradient_settings(const Env& env);

/// The environment of this process, parsed.
Env load_env();

/// A variable that is not ours (OMPI_COMM_WORLD_RANK, PATH, ...): its value or "".
std::string foreign_env(const char* name);
/// This process's rank in the launcher's job (PMIX_RANK, else RANK), "" outside one.
std::string launcher_rank();

/// `docs/environment.md`, generated.
std::string env_markdown();
/// `ddlrun --help-env`.
std::string env_help();

/// "64k" -> 65536; throws UsageError.
Bytes parse_bytes(std::string_view text);
/// A whole decimal number without sign; throws UsageError.
std::uint64_t parse_number(std::string_view text);
/// The candidate with the smallest edit distance to `word`.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
/// The same, "" where not even two thirds of the word are right.
std::string meant(std::string_view word, const std::vector<std::string>& candidates);
std::vector<std::string> split(std::string_view text, char separator);
/// The rails asked for (DDL_RAILS); none: whatever fits.
std::vector<std::string> wanted_rails(const Env& env);

}  // namespace ddl
