#include "interpose/mpi/call_note.hpp"

#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {

CallRecord* begin_note(Activity& activity, const CallName& name, NoteNumber number, MPI_Comm comm) {
  unsigned thread = 0;
  CommState* known = state_of(comm, thread);
  CallRecord* record = &activity.records[thread % Activity::kThreads];
  LastNote last;
  if (number == NoteNumber::of_the_job || !known) {
    record->begin(name, 0, number == NoteNumber::of_the_job ? 1 : 0);
  } else if (number == NoteNumber::none) {
    record->begin(name, known->identity, 0);
  } else {
    record->begin(name, known->identity, next_number(known->calls));
    last = {&name, comm, deletions.load(std::memory_order_relaxed), known, record};
  }
  if (!state().several_threads) last_note = last;
  return record;
}

// Where only one thread makes calls, what it has noted last.
CallRecord* PassingNote::record_of_thread() {
  Activity* activity = state().several_threads ? noted_in.load(std::memory_order_acquire) : nullptr;
  if (!activity) return nullptr;
  unsigned thread = 0;
  state_of(MPI_COMM_NULL, thread);
  return &activity->records[thread % Activity::kThreads];
}

void end_notes() {
  last_note = {};
  noted_in = nullptr;
}

}  // namespace ddl::mpi
