// What each thread has of its own, of which there is one where MPI allows one thread at a time: looking up
// what is a thread's costs some nanoseconds. Of use in exit handlers too, as of a program's that end MPI.
//
// Thread safety: all.
#pragma once

#include <utility>

#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

/// That of this thread; one for each type.
template <class T>
T& by_thread() {
  static T& by_any_thread = *new T;
  if (!state().several_threads) return by_any_thread;
  thread_local T* by_this_thread = nullptr;
  if (!by_this_thread) {
    struct AtThreadEnd {
      ~AtThreadEnd() { delete std::exchange(by_this_thread, nullptr); }
    };
    thread_local AtThreadEnd at_thread_end;
    static_cast<void>(&at_thread_end);
    by_this_thread = new T;
  }
  return *by_this_thread;
}

}  // namespace ddl::mpi
