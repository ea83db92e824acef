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

PassingNote::PassingNote() : record_(last_note.record) {
  if (state().several_threads) {
    Activity* activity = noted_in.load(std::memory_order_acquire);
    unsigned thread = 0;
    state_of(MPI_COMM_NULL, thread);
    record_ = activity ? &activity->records[thread % Activity::kThreads] : nullptr;
  }
  if (record_) record_->pass();
}

void end_notes() {
  last_note = {};
  noted_in = nullptr;
}

}  // namespace ddl::mpi
