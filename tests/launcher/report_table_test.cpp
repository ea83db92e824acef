#include "launcher/report_table.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(ReportTable, ShowsCallsPerRankAndTimePerCall) {
  const std::string text =
      report_table(R"({"complete": true, "ranks": 2, "engine": true, "reason": "", "seconds": 1.5,
    "grid": {"hosts": [{"name": "h0", "ranks": [0, 1]}], "dims": [2]}, "staging_bytes": 1000000,
    "rails": [{"name": "10.0.0.0/24", "bytes_sent": 2000, "bytes_predicted": 1000}],
    "collectives": [{"name": "MPI_Allreduce", "ranks": 2, "engine": {"calls": 20, "bytes": 4000000, "seconds": 0.4},
      "original": [{"reason": "measured against the engine", "calls": 4, "bytes": 8, "seconds": 0.0}]}],
    "fused": [{"collective": "MPI_Iallreduce", "class": "float32, sum", "calls": 400, "batches": 4, "bytes": 1638400}],
    "narrowed": [{"collective": "MPI_Allreduce", "class": "float32 as bfloat16", "calls": 20, "bytes": 8000, "bytes_sent": 5000, "bytes_in_memory": 10000}],
    "sparse": [{"collective": "MPI_Allreduce", "calls": 30, "bytes": 900000, "bytes_sent": 90000, "bytes_kept": 700000}],
    "algorithms": [{"collective": "MPI_Allreduce", "bytes_up_to": 64, "plan": "2 local exchange", "calls": 20}]})");
  for (const char* part :
       {"2 ranks on 1 host: h0 x2; with the engine; 1.5 s from MPI_Init on\n",
        "MPI_Allreduce               the engine                                  10        2 MB      0.2 s   "
        "    20 ms\n",
        "                            original: measured                           2         4 B       0 us   "
        "        -\n",
        "MPI_Allreduce                          64            20  2 local exchange\n", "10.0.0.0/24", "2 kB",
        "1 MB", "MPI_Iallreduce                       400           4    1.638 MB  float32, sum\n",
        "MPI_Allreduce                         20       10 kB        5 kB  float32 as bfloat16\n",
        "MPI_Allreduce                         30      900 kB       90 kB      700 kB\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(ReportTable, SaysWhatIsMissing) {
  EXPECT_EQ(report_table(""), "--- no report was written\n");
  EXPECT_EQ(report_table("{}"), "--- no report was written\n");
  std::string dead = report_table(
      R"({"complete": false, "ranks": 2, "engine": false, "reason": "DDL_ENABLE=0", "collectives": []})");
  EXPECT_NE(dead.find("without the engine: DDL_ENABLE=0"), std::string::npos) << dead;
  EXPECT_NE(dead.find("counts of rank 0 alone"), std::string::npos) << dead;
  EXPECT_NE(dead.find("no collective was called"), std::string::npos) << dead;
  EXPECT_NE(report_table(R"({"collectives": 3, "ranks": "x"})").find("another version"), std::string::npos);
}

}  // namespace ddl
