// No exception leaves a hook: it becomes one line and MPI_ERR_OTHER, through the error handler of the
// communicator that the call is on, which ends the job unless the program asked for error codes.
//
// The original is not called instead: it may have been, or other ranks may be in the engine.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

namespace ddl::mpi {

/// In a catch block: says what was thrown and asks the error handler. Returns MPI_ERR_OTHER.
int report_exception(const char* hook, MPI_Comm comm) noexcept;

/// Says a line and asks the error handler, which ends the job unless the program asked for error codes.
/// Returns `code`.
int report_error(const std::string& line, MPI_Comm comm, int code = MPI_ERR_OTHER);

/// A name as an argument of a template.
template <std::size_t N>
struct HookName {
  char text[N];
  constexpr HookName(const char (&from)[N]) { std::copy_n(from, N, text); }
};

/// The communicator among the arguments of a hook; MPI_COMM_WORLD where there is none.
template <class... Arguments>
MPI_Comm comm_among(Arguments... arguments) {
  MPI_Comm comm = MPI_COMM_WORLD;
  [[maybe_unused]] auto look = [&comm](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), MPI_Comm>) comm = argument;
  };
  (look(arguments), ...);
  return comm;
}

template <HookName name, auto hook>
struct Guarded;
template <HookName name, class... Arguments, int (*hook)(Arguments...)>
struct Guarded<name, hook> {
  static int call(Arguments... arguments) noexcept {
    try {
      return hook(arguments...);
    } catch (...) {
      return report_exception(name.text, comm_among(arguments...));
    }
  }
};

}  // namespace ddl::mpi
