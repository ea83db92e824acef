// Proof of use: the line at the end of a run (-v, --report, --compare) that says what the engine did, or the
// true reason why it did nothing. Pure.
#pragma once

#include <string>

#include "launcher/job_watch.hpp"
#include "launcher/program.hpp"
#include "launcher/supervise.hpp"

namespace ddl {

struct UseFacts {
  std::string report;  // the text of this job's report, "" where none was written
  std::string device;  // where it goes instead of to a file
  std::string place_without_room;  // for one, a folder of this host; "" where there is some
  JobEnd end;
  JobSeen seen;                          // of the processes on this host
  Preloadable reach = Preloadable::yes;  // the program's file
  std::string program;                   // as the user wrote it
  std::string missing_shim;              // its file, where it is missing; "" where it is there
  std::string far_host;                  // of rank 0 where that is not this machine; "" where it is
};

/// `engine: 444 of 472 MPI_Allreduce calls per rank, 201 MB, 0.12 s; original: 28 measured`, or
/// `engine: not used, because ...`; for a job that died or was interrupted with that behind it.
std::string engine_line(const UseFacts& facts);

/// 1234567 -> "1.235 MB", powers of 1000.
std::string decimal_bytes(double bytes);
/// "1.2 us", "34 ms", "5.6 s".
std::string duration_text(double seconds);
/// The reasons for the original as people say them, shorter: "measured".
std::string reason_text(const std::string& reason);

}  // namespace ddl
