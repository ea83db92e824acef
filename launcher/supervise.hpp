// Runs mpirun as a child and stays: signals are forwarded by hand, an mpirun that does not come to its end is
// helped there (starter_watch), and what it leaves behind on this host is ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string_view>

#include "launcher/job_spec.hpp"

namespace ddl {

/// Called with the program's standard output as it comes.
using OutputSink = std::function<void(std::string_view)>;

/// How a job ended.
struct JobEnd {
  int code = 0;         // 128 + signal when mpirun itself was killed
  int interrupted = 0;  // the signal by which the user ended it (INT, TERM, HUP, QUIT), 0: none
};

/// Called now and then with mpirun's process; returns the pause until the next time, 0: no more.
using JobLook = std::function<std::chrono::milliseconds(pid_t)>;

/// Runs the job to its end. With a sink its standard output goes there instead of to ours. TERM, INT, HUP,
/// QUIT, USR1, USR2, TSTP and CONT sent to us reach mpirun, which does not inherit an ignored PIPE. All in
/// one thread: with several, mpirun would be told of our death once for each.
JobEnd supervise(const JobSpec& job, const OutputSink& sink = {}, const JobLook& look = {});

}  // namespace ddl
