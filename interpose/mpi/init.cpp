// MPI_Init and MPI_Finalize: the engine's life inside the program's.
#include "interpose/mpi/init.hpp"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/env.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "interpose/load_engine.hpp"
#include "interpose/mpi/call_note.hpp"
#include "interpose/mpi/comms.hpp"
#include "interpose/mpi/persistent.hpp"
#include "interpose/mpi/requests.hpp"
#include "interpose/mpi/run_call.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

// Says what is in the way: once, where the job has ranks.
const ddl_engine_api* engine_or_warning() {
  const char* why = nullptr;
  const ddl_engine_api* engine = load_engine(&why);
  if (std::string rank = foreign_env("PMIX_RANK"); !engine && (rank.empty() || rank == "0"))
    log_warning(std::string("collectives use the original library: ") + why);
  return engine;
}

// Open MPI's own progress: moves everything, and calls us back from the program's waits.
void find_progress(State& s) {
  void* library = mpi_library();
  if (!library) return;
  s.opal_progress = reinterpret_cast<int (*)()>(dlsym(library, "opal_progress"));
  s.opal_progress_register = reinterpret_cast<int (*)(int (*)())>(dlsym(library, "opal_progress_register"));
  s.opal_progress_unregister =
      reinterpret_cast<int (*)(int (*)())>(dlsym(library, "opal_progress_unregister"));
}

int all_gather(const void* mine, std::uint64_t bytes, void* all) {
  const int count = static_cast<int>(bytes);
  return PMPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS;
}

void announce() {
  State& s = state();
  find_progress(s);
  s.api = engine_or_warning();
  if (!s.api) return;
  const ddl_host_library library = {
      .has_progress_hook = s.opal_progress_register && s.opal_progress_unregister,
      .all_gather = all_gather,
      .published_key = s.published_key,
      .progress = move_original,
  };
  s.job = s.api->announce(&library);
}

void connect() {
  State& s = state();
  if (!s.job) return;
  PMPI_Comm_dup(MPI_COMM_SELF, &s.own_self);
  PMPI_Comm_set_errhandler(s.own_self, MPI_ERRORS_RETURN);
  s.active = s.api->join(s.job) != 0;
  if (!s.active) return;
  int level = MPI_THREAD_MULTIPLE;
  PMPI_Query_thread(&level);
  s.several_threads = level == MPI_THREAD_MULTIPLE;
  if (auto* checks = static_cast<const bool*>(dlsym(mpi_library(), "ompi_mpi_param_check")))
    s.checks_arguments = *checks;
  adopt_world();
  // This library has a log of its own.
  set_log_speaker("rank " + std::to_string(s.rank) + " on " + host_identity().host);
  noted_in = static_cast<Activity*>(s.api->activity(s.job));
}

void write_report() {
  State& s = state();
  int rank = 0, size = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  tell_counts();
  const char* part = s.api->report_part(s.job);
  if (!s.active) {
    if (rank == 0) s.api->write_report(s.job, 1, &part);
    return;
  }
  int bytes = static_cast<int>(strlen(part)) + 1;
  std::vector<int> lengths(static_cast<std::size_t>(size)), offsets(lengths.size());
  PMPI_Gather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  int total = 0;
  for (std::size_t r = 0; r < lengths.size(); ++r) offsets[r] = total, total += lengths[r];
  std::vector<char> text(static_cast<std::size_t>(total) + 1);
  PMPI_Gatherv(part, bytes, MPI_CHAR, text.data(), lengths.data(), offsets.data(), MPI_CHAR, 0,
               MPI_COMM_WORLD);
  if (rank != 0) return;
  std::vector<const char*> parts;
  for (int offset : offsets) parts.push_back(text.data() + offset);
  s.api->write_report(s.job, parts.size(), parts.data());
}

// What goes wrong in `body` costs its effect; the program goes on with the original library.
template <class Body>
void at_most_a_warning(const char* what, Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    log_warning(std::string(what) + ": " + error.what());
  }
}

// Without an endpoint info of this rank, which all others see alike. Whether it was done: not when the
// program is wrong to come here, which the original tells it.
bool announce_or_pass_through() {
  int begun = 0, ended = 0;
  PMPI_Initialized(&begun);
  PMPI_Finalized(&ended);
  if (begun || ended || state().job) return false;
  at_most_a_warning("collectives use the original library", announce);
  return true;
}

int begun(bool was_announced, int result) {
  State& s = state();
  if (was_announced && result == MPI_SUCCESS) connect();
  if (was_announced && result != MPI_SUCCESS && s.job) s.api->close(std::exchange(s.job, nullptr));
  return result;
}

// An Open MPI that was opened with RTLD_DEEPBIND has libc's own `environ`, where a program that is no PIE has
// a copy of it. It frees entries of a list that is not in its own, as in MPI_Init and MPI_Finalize after we,
// PMIx for us or the program have added to the environment. So meanwhile its own is the program's; nobody
// else looks at it there.
template <class Call>
int with_one_environment(Call call) {
  void* library = mpi_library();
  auto* theirs = library ? static_cast<char***>(dlsym(library, "environ")) : nullptr;
  if (!theirs || theirs == &environ) return call();
  char** before = std::exchange(*theirs, environ);
  int result = call();
  *theirs = before;
  return result;
}

}  // namespace

int init(int* argc, char*** argv) {
  const bool was_announced = announce_or_pass_through();
  return begun(was_announced, with_one_environment([&] { return DDL_NEXT(MPI_Init)(argc, argv); }));
}

int init_thread(int* argc, char*** argv, int required, int* provided) {
  const bool was_announced = announce_or_pass_through();
  return begun(was_announced, with_one_environment(
                                  [&] { return DDL_NEXT(MPI_Init_thread)(argc, argv, required, provided); }));
}

// MPI_Finalize first frees what hangs on MPI_COMM_SELF, the last that was attached before the others, and
// until then all of MPI may be used: by callbacks of the program, and of libraries that end with it. So we
// leave when it is our attribute's turn, which was there from the beginning.
void leave_job() {
  State& s = state();
  if (!s.job) return;
  if (s.active) {
    PMPI_Barrier(MPI_COMM_WORLD);  // nobody needs this rank's memory or connections any more
    close_requests();
    free_what_waits();
  }
  if (s.api->report_wanted(s.job)) at_most_a_warning("cannot write the report", write_report);
  if (s.active) PMPI_Barrier(MPI_COMM_WORLD);
  s.active = false;
  if (s.own_self != MPI_COMM_NULL) PMPI_Comm_free(&s.own_self);
  s.api->leave(s.job);
  s.job = nullptr;
}

int finalize() {
  State& s = state();
  ddl_job* const job = s.job;
  const bool leaves_with_self = s.active && state_of(MPI_COMM_SELF);
  if (!leaves_with_self) leave_job();
  const int result = with_one_environment([] { return DDL_NEXT(MPI_Finalize)(); });
  end_notes();
  s.active = false;  // also where the original has found an error, and freed nothing
  s.job = nullptr;
  if (job) s.api->close(job);
  return result;
}

}  // namespace ddl::mpi
