#pragma once

#include <sys/types.h>

namespace ddl {

enum class ProcessState { runs, stopped, gone };

/// Of a process of this machine, as /proc tells; it runs where nobody can tell.
ProcessState state_of_process(pid_t pid);

}  // namespace ddl
