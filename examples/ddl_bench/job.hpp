// What stands in the head of the table: where the ranks run, on which MPI library, with or without the
// engine.
#pragma once

#include <string>

namespace bench {

struct Job {
  int ranks = 1;
  std::string hosts;    // "2 hosts: h0 x2, h1 x2"
  std::string library;  // "Open MPI v4.1.4"
  bool engine = false;  // ddlrun's engine is loaded into rank 0 and not switched off
};

// Collective over MPI_COMM_WORLD; valid on rank 0.
Job describe_job();

// "h0", "h0", "h1" -> "2 hosts: h0 x2, h1". In the order of their first ranks, the first eight.
std::string hosts_text(const std::string* names, int ranks);

}  // namespace bench
