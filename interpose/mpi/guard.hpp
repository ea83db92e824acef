// No exception of ours leaves a hook: it becomes one line and MPI_ERR_OTHER, through the error handler of the
// communicator that the call is on, which ends the job unless the program asked for error codes.
//
// The original is not called instead: it may have been, or other ranks may be in the engine.
//
// What an error handler of the program's throws passes through, from the original as from here, as it would
// without us.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include "interpose/mpi/call_note.hpp"

namespace ddl::mpi {

/// In a catch block: says what was thrown and asks the error handler. Returns MPI_ERR_OTHER. What the program
/// has thrown is thrown again.
int report_exception(const char* hook, MPI_Comm comm);
/// Likewise, where a hook ends with it.
int end_with_exception(const char* hook, MPI_Comm comm);

/// PMPI_Comm_call_errhandler(). Returns `code`.
int ask_error_handler(MPI_Comm comm, int code);

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

template <HookName name>
inline constexpr CallName kNoteName{std::string_view(name.text)};
// Of MPI_Comm_create_group the other ranks of the communicator know nothing; what has none ends soon, but
// where the job begins and ends.
constexpr NoteNumber note_number(std::string_view name, bool is_on_comm) {
  if (is_on_comm) return name == "MPI_Comm_create_group" ? NoteNumber::none : NoteNumber::next;
  return name.starts_with("MPI_Init") || name == "MPI_Finalize" ? NoteNumber::of_the_job
                                                                : NoteNumber::not_noted;
}

template <HookName name, auto hook>
struct Guarded;
template <HookName name, class... Arguments, int (*hook)(Arguments...)>
struct Guarded<name, hook> {
  static int call(Arguments... arguments) {
    constexpr bool is_on_comm = (std::is_same_v<Arguments, MPI_Comm> || ...);
    try {
      const CallNote<kNoteName<name>, note_number(name.text, is_on_comm)> note(comm_among(arguments...));
      return hook(arguments...);
    } catch (...) {
      return end_with_exception(name.text, comm_among(arguments...));
    }
  }
};

}  // namespace ddl::mpi
