#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "core/base/types.hpp"

namespace ddl {

enum class ProcessState { runs, stopped, gone };

/// Of a process of this machine, as /proc tells; it runs where nobody can tell.
ProcessState state_of_process(pid_t pid);

/// The name of the file that it runs, without its folder; "" where nobody can tell.
std::string executable_of(pid_t pid);
/// Whether that is the name of what starts ranks: mpirun, its daemons, and our own way to a program.
bool is_starter(std::string_view executable);

/// What it was started with: entries that end with a 0. "" where nobody can tell.
std::string environment_of(pid_t pid);
/// Of a variable in such an environment; "": it is not set.
std::string value_in(const std::string& environment, std::string_view name);
/// A rank as such a variable has it; -1: it is no number.
Rank rank_of(const std::string& word);

}  // namespace ddl
