// What the MPI front keeps: one state per process, made in MPI_Init, one per communicator.
//
// Thread safety: as MPI's own; the state is set in MPI_Init and constant until MPI_Finalize.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>

#include "core/api/engine_api.h"
#include "core/base/types.hpp"
#include "interpose/front.h"
#include "interpose/mpi/blocks.hpp"
#include "interpose/mpi/kept_calls.hpp"

namespace ddl::mpi {

/// The engine's view of a communicator; lives until that is freed and the last call on it is done.
struct CommState {
  ddl_comm* engine = nullptr;  // null: its collectives use the original library
  const char* reason = "";     // then: why
  Rank size = 0, me = 0;
  std::uint64_t identity = 0;
  std::atomic<std::uint64_t> calls{0};  // that all its ranks have made alike, see call_note.hpp
  std::atomic<int> users{1};
  // Communicators made of it, by all its ranks together; and, by a group of them, of each group and tag.
  std::atomic<std::uint64_t> created{0};
  std::mutex mutex;
  std::map<std::uint64_t, std::uint64_t> created_by_group;
  BlockCache blocks;
  KeptCalls kept;
  LastPassed last_passed;
  LastEmpty last_empty;
  bool ends_with_barrier = false;  // its last blocking call with elements, alike on all its ranks
};

/// Of the call that this thread makes there, see call_note.hpp.
inline std::uint64_t number_on(const CommState& comm) { return comm.calls.load(std::memory_order_relaxed); }

struct State {
  const ddl_engine_api* api = nullptr;
  ddl_job* job = nullptr;
  int rank = 0;                  // in MPI_COMM_WORLD
  bool active = false;           // every rank of the job agreed to use the engine
  bool several_threads = true;   // may be in MPI at the same time
  bool checks_arguments = true;  // Open MPI does; a program's user may forbid it (mpi_param_check)
  ddl_key_function* published_key = nullptr;
  ddl_unwound_function* unwound = nullptr;
  MPI_Comm own_self = MPI_COMM_NULL;  // our dup of MPI_COMM_SELF, for progress by probing
  int (*opal_progress)() = nullptr;
  int (*opal_progress_register)(int (*)()) = nullptr;
  int (*opal_progress_unregister)(int (*)()) = nullptr;
};
inline State& state() {
  static State* const the_state = new State;  // outlives exit handlers of the program
  return *the_state;
}
/// Of what the program's threads share: none where MPI allows one at a time.
inline std::unique_lock<std::mutex> lock_for_threads(std::mutex& mutex) {
  return state().several_threads ? std::unique_lock(mutex) : std::unique_lock<std::mutex>();
}
const ddl_mpi_table& next();
/// The handle of the process's Open MPI; null before that is loaded.
void* mpi_library();

/// An error handler of the program's may throw out of the original. That is noted, and goes on to the program
/// (guard.hpp).
void note_thrown_by_program() noexcept;
template <class Function>
struct Original;
template <class... Arguments>
struct Original<int(Arguments...)> {
  int (*function)(Arguments...);

  static Original from(ddl_function word) { return {reinterpret_cast<int (*)(Arguments...)>(word)}; }
  int operator()(Arguments... arguments) const {
    try {
      return function(arguments...);
    } catch (...) {
      note_thrown_by_program();
      throw;
    }
  }
};

/// The original of a hooked function, with its type.
#define DDL_NEXT(name) \
  ::ddl::mpi::Original<std::remove_reference_t<decltype(name)>>::from(::ddl::mpi::next().name)

}  // namespace ddl::mpi
