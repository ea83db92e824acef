#include "launcher/engine_use.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

const char* kServed = R"({"complete": true, "ranks": 2, "engine": true, "reason": "", "collectives": [
  {"name": "MPI_Bcast", "ranks": 2, "engine": {"calls": 0, "bytes": 0, "seconds": 0.0},
   "original": [{"reason": "device", "calls": 2, "bytes": 8, "seconds": 0.0}]},
  {"name": "MPI_Allreduce", "ranks": 2, "engine": {"calls": 888, "bytes": 403000000, "seconds": 0.24},
   "original": [{"reason": "measured against the engine", "calls": 56, "bytes": 4, "seconds": 0.5}]}]})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

UseFacts facts(const std::string& report = "") {
  UseFacts facts;
  facts.report = report;
  facts.program = "prog";
  return facts;
}

std::string left(const std::string& reason, const std::string& more = "") {
  return R"({"complete": true, "ranks": 2, "engine": false, "reason": ")" + reason +
         "\", \"collectives\": []" + more + "}";
}

}  // namespace

TEST(EngineLine, SaysWhatTheEngineDid) {
  EXPECT_EQ(engine_line(facts(kServed)),
            "engine: 444 of 472 MPI_Allreduce calls per rank, 201.5 MB, 0.12 s; original: 28 measured");
}

TEST(EngineLine, ManyCollectivesAreSummedUp) {
  const std::string one =
      R"({"name": "NAME", "ranks": 2, "engine": {"calls": 20, "bytes": 8, "seconds": 1}, "original": []})";
  auto report = [&](const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + with(one, "NAME", name);
    return engine_line(
        facts(R"({"complete": true, "ranks": 2, "engine": true, "collectives": [)" + all + "]}"));
  };
  EXPECT_EQ(report({"MPI_Barrier", "MPI_Allreduce"}),
            "engine: 10 of 10 MPI_Allreduce calls per rank, 4 B, 0.5 s; and 10 of 10 MPI_Barrier");
  EXPECT_EQ(
      report({"MPI_Barrier", "MPI_Allreduce", "MPI_Bcast", "MPI_Reduce"}),
      "engine: 10 of 10 MPI_Allreduce calls per rank, 4 B, 0.5 s; and 30 of 30 calls of 3 other collectives");
}

TEST(EngineLine, AReportThatCouldNotBeWrittenSaysNothingOfTheEngine) {
  UseFacts full = facts();
  full.seen.front = true;
  EXPECT_EQ(engine_line(full), "engine: not used, because rank 0 could not use it");
  full.place_without_room = "/tmp";
  EXPECT_EQ(engine_line(full), "engine: not known, because rank 0 could write no report in /tmp");
}

TEST(EngineLine, AJobThatDiedOrWasInterruptedIsToldAsThat) {
  UseFacts died = facts(with(kServed, "\"complete\": true", "\"complete\": false"));
  died.end.code = 139;
  EXPECT_NE(engine_line(died).find("calls of rank 0"), std::string::npos);
  EXPECT_NE(engine_line(died).find("; the job died (signal 11), up to 2 s before that"), std::string::npos);
  UseFacts failed = facts(kServed);
  failed.end.code = 3;
  EXPECT_NE(engine_line(failed).find("; the job failed (exit code 3)"), std::string::npos);
  failed.end.interrupted = 2;
  EXPECT_NE(engine_line(failed).find("; the job was interrupted (signal 2)"), std::string::npos);
  UseFacts early = facts();
  early.end.code = 137;
  early.seen.front = true;
  EXPECT_EQ(engine_line(early),
            "engine: not used, because the job died (signal 9) before it had done an all-reduce");
  early.seen.other_front = true;
  EXPECT_EQ(engine_line(early),
            "engine: not known, because rank 0 wrote no report before the job died (signal 9)");
  early.end.code = 0;
  EXPECT_EQ(engine_line(early), "engine: not known, because rank 0 wrote no report before the job ended");
  UseFacts open = facts(with(kServed, "\"complete\": true", "\"complete\": false"));
  EXPECT_NE(engine_line(open).find("the program did not call MPI_Finalize"), std::string::npos);
}

TEST(EngineLine, WhatWasCountedUntilThenIsNoReasonForWhatCameAfter) {
  const std::string kept = with(left(""), "\"complete\": true", "\"complete\": false");
  UseFacts at_once = facts(with(kept, "\"engine\": false", "\"engine\": true"));
  EXPECT_EQ(
      engine_line(at_once),
      "engine: not known, rank 0 had counted no call yet up to 2 s before its end; rank 0 ended without "
      "its last report");
  at_once.report = kept;
  at_once.end.code = 137;
  EXPECT_NE(engine_line(at_once).find("not known, rank 0 had counted no call"), std::string::npos);
  EXPECT_NE(engine_line(at_once).find("; the job died (signal 9)"), std::string::npos);
  at_once.report = with(kept, "\"reason\": \"\"", "\"reason\": \"DDL_ENABLE=0\"");
  EXPECT_EQ(engine_line(at_once),
            "engine: not used, because DDL_ENABLE=0; the job died (signal 9), up to 2 s before that");
  at_once.report =
      with(with(kServed, "\"complete\": true", "\"complete\": false"), "\"calls\": 888", "\"calls\": 0");
  EXPECT_NE(engine_line(at_once).find(" MPI_Allreduce calls of rank 0 went to the original ("),
            std::string::npos);
  at_once.report = R"({"complete": false, "ranks": 2, "engine": true, "collectives": [
    {"name": "MPI_Allreduce", "engine": {"calls": 0, "bytes": 0, "seconds": 0}, "original": []}]})";
  EXPECT_NE(engine_line(at_once).find("not known, rank 0 had counted no call"), std::string::npos);
}

TEST(EngineLine, TheReportKnowsWhyTheEngineWasNotUsed) {
  auto why = [](const std::string& report) { return engine_line(facts(report)); };
  EXPECT_EQ(why(left("DDL_ENABLE=0")), "engine: not used, because DDL_ENABLE=0");
  std::string on = with(left(""), "\"engine\": false", "\"engine\": true");
  EXPECT_EQ(why(on), "engine: not used, because the program made no collective call");
  EXPECT_NE(why(with(on, "\"collectives\": []", "\"mpi4py\": true, \"collectives\": []"))
                .find("mpi4py's lowercase"),
            std::string::npos);
  EXPECT_NE(why(with(on, "\"ranks\": 2", "\"ranks\": 1")).find("one rank"), std::string::npos);
  EXPECT_NE(why(with(with(kServed, "888", "0"), "measured against the engine", "datatype"))
                .find("all 28 MPI_Allreduce calls per rank went to the original (28 datatype)"),
            std::string::npos);
  EXPECT_EQ(why("{\"collectives\": [1]}"), "engine: not known, the report is of another version");
}

TEST(EngineLine, WithoutAReportWhatWasSeenTellsWhy) {
  auto why = [](auto change) {
    UseFacts all = facts();
    change(all);
    return engine_line(all).substr(std::string("engine: not used, because ").size());
  };
  EXPECT_EQ(why([](UseFacts&) {}), "nothing that prog started used MPI, NCCL or gloo");
  EXPECT_EQ(why([](UseFacts& f) { f.end.code = 137; }),
            "nothing that prog started was seen to use MPI, NCCL or gloo; the job died (signal 9)");
  EXPECT_EQ(why([](UseFacts& f) { f.missing_shim = "/l/libddl_shim.so"; }), "/l/libddl_shim.so is missing");
  EXPECT_NE(why([](UseFacts& f) { f.reach = Preloadable::statically; }).find("statically linked"),
            std::string::npos);
  EXPECT_NE(why([](UseFacts& f) { f.seen.mpich = "m"; })
                .find("m uses MPICH or one like it (Intel MPI, MVAPICH), and this is Open MPI's mpirun: "
                      "every process is rank 0 of 1; use that library's own mpirun"),
            std::string::npos);
  EXPECT_NE(why([](UseFacts& f) {
              f.seen.without_shim = "python3";
            }).find("LD_PRELOAD was taken away before python3"),
            std::string::npos);
  EXPECT_NE(why([](UseFacts& f) { f.seen.with_mpi = "p"; }).find("p did not come to MPI_Init"),
            std::string::npos);
}

TEST(EngineLine, AReportThatWentToADeviceIsNotReadBack) {
  UseFacts terminal = facts();
  terminal.device = "/dev/tty";
  EXPECT_NE(engine_line(terminal).find("nothing that prog started used MPI"), std::string::npos);
  terminal.seen.front = true;
  EXPECT_EQ(engine_line(terminal), "engine: not known here, the report went to /dev/tty");
}

TEST(EngineLine, WhatRanOnAnotherHostIsNotGuessed) {
  UseFacts far = facts();
  far.far_host = "h1";
  EXPECT_EQ(engine_line(far), "engine: not known here, rank 0 ran on h1: name a --report file that both see");
  far.reach = Preloadable::statically;
  EXPECT_NE(engine_line(far).find("not used, because prog is statically linked"), std::string::npos);
}

TEST(JobSeen, LibrariesAreKnownByTheirFiles) {
  EXPECT_EQ(libraries_in("7f00 r-xp /usr/bin/ls\n"), MappedLibraries{});
  MappedLibraries found = libraries_in("a /opt/ddl/lib/libddl_shim.so\nb /usr/lib/libmpi.so.40.30.4\n");
  EXPECT_TRUE(found.shim && found.open_mpi && !found.front && !found.mpich);
  EXPECT_TRUE(libraries_in("a /usr/lib/libmpich.so.12.2.2").mpich);
  MappedLibraries mpi = libraries_in("a /l/libddl_shim.so\nb /l/libddl_mpi.so\nc /l/libddl.so\n");
  EXPECT_TRUE(mpi.front && !mpi.other_front);
  for (const char* other : {"a /l/libddl_gloo.so\n", "a /l/libddl_nccl.so\n", "a /l/libddl.so\n"})
    EXPECT_TRUE(libraries_in(other).front && libraries_in(other).other_front) << other;
  EXPECT_TRUE(seen_of({{1, {"python3", libraries_in("a /l/libddl_gloo.so")}}, {2, {"p", mpi}}}).other_front);
  MappedLibraries bare = libraries_in("a /usr/lib/libmpi.so.40");
  EXPECT_EQ(seen_of({{1, {"sh", {}}}, {2, {"python3", bare}}}).without_shim, "python3");
  EXPECT_EQ(seen_of({{1, {"prog", found}}}).without_shim, "");
}

TEST(EngineLine, NumbersArePlain) {
  EXPECT_EQ(decimal_bytes(12), "12 B");
  EXPECT_EQ(decimal_bytes(999'960), "1 MB");
  EXPECT_EQ(decimal_bytes(403e6), "403 MB");
  EXPECT_EQ(duration_text(0.12), "0.12 s");
  EXPECT_EQ(duration_text(0.0123), "12.3 ms");
  EXPECT_EQ(duration_text(4e-6), "4 us");
}

}  // namespace ddl
