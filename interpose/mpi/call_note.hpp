// CallNote: while it lives, the peers of this process see which of our hooks a thread is in: which function,
// on which communicator, the how manieth call there (trace/activity). That costs a few nanoseconds, no lock
// and no look at the clock; least where MPI allows one thread at a time and the call is as the one before.
//
// Calls are numbered per communicator, alike on all its ranks where they make the same ones: so that a rank
// that waits knows who is in the same call.
#pragma once

#include <mpi.h>

#include <atomic>

#include "core/trace/activity.hpp"
#include "interpose/mpi/comms.hpp"

namespace ddl::mpi {

/// `of_the_job`: a function without a communicator, which every rank calls once.
enum class NoteNumber : std::uint8_t { not_noted, none, next, of_the_job };

/// MPI allows one call at a time on a communicator.
inline std::uint64_t next_number(std::atomic<std::uint64_t>& calls) {
  const std::uint64_t number = calls.load(std::memory_order_relaxed) + 1;
  calls.store(number, std::memory_order_relaxed);
  return number;
}

CallRecord* begin_note(Activity& activity, const CallName& name, NoteNumber number, MPI_Comm comm);
/// Nothing is noted any more.
void end_notes();

/// Where this process notes; null: nobody looks.
inline std::atomic<Activity*> noted_in{nullptr};

/// The last call that was noted, where MPI allows one thread at a time; else without a record.
struct LastNote {
  const CallName* name = nullptr;
  MPI_Comm comm = MPI_COMM_NULL;
  unsigned deletions = 0;
  CommState* state = nullptr;
  CallRecord* record = nullptr;

  bool is_of(MPI_Comm other) const {
    return name && comm == other && deletions == mpi::deletions.load(std::memory_order_relaxed);
  }
};
inline LastNote last_note;

/// While it lives, the original library has the call that this thread has noted.
class PassingNote {
 public:
  PassingNote() : record_(last_note.record ? last_note.record : record_of_thread()) {
    if (record_) record_->pass();
  }
  ~PassingNote() {
    if (record_) record_->take_back();
  }
  PassingNote(const PassingNote&) = delete;
  PassingNote& operator=(const PassingNote&) = delete;

 private:
  static CallRecord* record_of_thread();

  CallRecord* record_;
};

/// state_of() the communicator of the call that this thread has noted; null while the engine is off.
inline CommState* state_of_noted(MPI_Comm comm) {
  if (last_note.is_of(comm)) return last_note.state;
  return state().active ? state_of(comm) : nullptr;
}

template <const CallName& name, NoteNumber number>
class CallNote {
 public:
  explicit CallNote(MPI_Comm comm) {
    if (number == NoteNumber::not_noted) return;
    if (number == NoteNumber::next && last_note.is_of(comm)) {
      record_ = last_note.record;
      const std::uint64_t next = next_number(last_note.state->calls);
      if (last_note.name == &name)
        record_->begin_next(next);
      else
        record_->begin(*(last_note.name = &name), last_note.state->identity, next);
    } else if (Activity* activity = noted_in.load(std::memory_order_acquire)) {
      record_ = begin_note(*activity, name, number, comm);
    }
  }
  ~CallNote() {
    const bool may_have_ended = number == NoteNumber::of_the_job;  // the noting: that hook closes the job
    if (record_ && (!may_have_ended || noted_in.load(std::memory_order_relaxed))) record_->end();
  }
  CallNote(const CallNote&) = delete;
  CallNote& operator=(const CallNote&) = delete;

 private:
  CallRecord* record_ = nullptr;
};

}  // namespace ddl::mpi
