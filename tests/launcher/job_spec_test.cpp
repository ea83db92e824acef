#include "launcher/job_spec.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "launcher/messages.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

struct Job {
  FakeWorld world;
  int major = 4;
  Installation installation{"/opt/ddl/bin", "/opt/ddl/lib"};

  JobSpec make(const std::string& line, JobSpec (*build)(const JobInputs&)) const {
    Options options = parse_options(split_shell_words(line));
    System view = world.view();
    Allocation allocation = resolve_allocation(options, view);
    MpirunInfo mpirun{"mpirun", true, major, major == 4 ? "4.1.4" : "5.0.7", ""};
    return build({options, allocation, mpirun, installation, view});
  }
  std::string engine(const std::string& line) const { return shell_line(make(line, engine_job).command); }
  static JobSpec counted(const JobInputs& in) { return plain_job(in, Measures::calls, "/r"); }
  static JobSpec timed(const JobInputs& in) { return plain_job(in, Measures::start, "/r"); }
  static JobSpec unmeasured(const JobInputs& in) { return plain_job(in, Measures::calls, ""); }
  std::string plain(const std::string& line) const { return shell_line(make(line, unmeasured).command); }
};

// The command without the parts every job has.
const std::string kExec = "/opt/ddl/bin/ddl-exec --set HWLOC_COMPONENTS=-gl,-opencl ";

}  // namespace

TEST(JobSpec, EveryProgramIsWrapped) {
  EXPECT_EQ(Job{}.engine("-np 2 prog a 'b c'"),
            "mpirun --bind-to none -np 2 " + kExec + "--bind cores -- prog a 'b c'");
  EXPECT_EQ(Job{}.engine("--bind-to core -np 1 a : -np 2 b"),
            "mpirun --bind-to core -np 1 " + kExec + "-- a : -np 2 " + kExec + "-- b");
}

const std::string kPlain = "/opt/ddl/bin/ddl-exec --set DDL_ENABLE=0 ";

TEST(JobSpec, ThePlainJobIsWhatTheUserWouldTypeWithTheRanksVariables) {
  EXPECT_EQ(Job{}.plain("--compare -np 2 -H h1:2 a : -np 1 b c"),
            "mpirun -np 2 -H h1:2 " + kPlain + "--master h1 -- a : -np 1 " + kPlain + "--master h1 -- b c");
  EXPECT_EQ(Job{}.plain("-x DDL_ENABLE=1 -x A=1 -m r p"), "mpirun -x A=1 " + kPlain + "-- p");
  EXPECT_EQ(shell_line(Job{}.make("p", Job::counted).command),
            "mpirun " + kPlain + "--set DDL_REPORT=/r -- p");
  EXPECT_EQ(shell_line(Job{}.make("p", Job::timed).command),
            "mpirun " + kPlain + "--set DDL_REPORT=/r --set DDL_TIMES_ONLY=1 -- p");
}

TEST(JobSpec, AHostfileOfMpichsFormBecomesAHostList) {
  Job job;
  job.world.files["/work dir/F"] = "a:2\nb:1\n";
  EXPECT_EQ(job.plain("-np 3 -f F p"), "mpirun -H a:2,b:1 -np 3 " + kPlain + "--master a -- p");
  job.world.files["/work dir/F"] = "a slots=2\n";
  EXPECT_EQ(job.plain("-np 2 -f F p"), "mpirun -np 2 --hostfile F " + kPlain + "--master a -- p");
}

TEST(JobSpec, TheUsersBindingIsLeftAlone) {
  Job job;
  EXPECT_NE(job.engine("p").find("--bind-to none"), std::string::npos);
  for (const char* line :
       {"--map-by slot:pe=2 p", "-mca hwloc_base_binding_policy core p", "--mpiarg '--bind-to core' p"})
    EXPECT_EQ(job.engine(line).find("--bind-to none"), std::string::npos) << line;
  job.world.variables["OMPI_MCA_hwloc_base_binding_policy"] = "none";
  EXPECT_EQ(job.engine("p").find("--bind"), std::string::npos);
  job.world.variables = {{"OMPI_MCA_rmaps_base_mapping_policy", "slot:PE=1"}};
  EXPECT_EQ(job.engine("p").find("--bind"), std::string::npos);
  job.world.variables = {{"OMPI_MCA_rmaps_base_mapping_policy", "slot"}, {"HOME", "/home/me"}};
  EXPECT_NE(job.engine("p").find("--bind"), std::string::npos);
  job.world.files["/work dir/T"] = "-mca hwloc_base_binding_policy core\n";
  job.world.files["/work dir/A"] = "hwloc_base_binding_policy = core\n";
  EXPECT_EQ(job.engine("--tune T p").find("--bind"), std::string::npos);
  EXPECT_EQ(job.engine("--am A p").find("--bind"), std::string::npos);
  job.world.files["/home/me/.openmpi/mca-params.conf"] = "hwloc_base_binding_policy=core\n";
  EXPECT_EQ(job.engine("p").find("--bind"), std::string::npos);
}

TEST(JobSpec, WhoBindsReportsTheBindings) {
  for (const char* line : {"--report-bindings -np 1 p", "--mpiarg -report-bindings -np 1 p"}) {
    EXPECT_EQ(Job{}.engine(line),
              "mpirun --bind-to none -np 1 " + kExec + "--bind cores --report-bindings -- p");
    EXPECT_NE(Job{}.plain(line).find("-report-bindings "), std::string::npos);
  }
  EXPECT_EQ(Job{}.engine("--report-bindings --bind-to core p"),
            "mpirun --report-bindings --bind-to core " + kExec + "-- p");
}

TEST(JobSpec, RankZerosHostIsPassedOn) {
  EXPECT_NE(Job{}.engine("-H me@h1:1,h2:1 p").find("--master h1 "), std::string::npos);
  EXPECT_EQ(Job{}.engine("p").find("--master"), std::string::npos);
  Job job;
  job.world.files["/work dir/ranks"] = "rank 1=h1 slot=0\nrank 0=h2 slot=0-1\n";
  EXPECT_NE(job.engine("-rf ranks -H h1:1,h2:1 p").find("--master h2 "), std::string::npos);
}

TEST(JobSpec, RankZeroIsWhereThisMpirunPutsIt) {
  Job job;
  job.world.aliases = {"head-ib"};
  job.world.files = {{"/work dir/F", "h1 slots=2\nhead slots=2\n"}, {"/work dir/D", "h1\nhead.cluster\n"}};
  const auto master = [&](const std::string& line) {
    const Strings words = job.make(line, engine_job).command;
    const auto at = std::find(words.begin(), words.end(), "--master");
    return at == words.end() ? std::string() : at[1];
  };
  const auto both = [&](const std::string& line) {
    job.major = 4;
    const std::string of_4 = master(line);
    job.major = 5;
    return of_4 + " " + master(line);
  };
  EXPECT_EQ(both("-H h1,head p"), "head h1") << "Open MPI 4 begins with its own host";
  EXPECT_EQ(both("-H h1,head-ib p"), "head-ib h1") << "by whatever name";
  EXPECT_EQ(both("--hostfile F p"), "head h1");
  EXPECT_EQ(both("-H h1,h2 p"), "h1 h1");
  EXPECT_EQ(both("-H localhost,h1 p"), "head.cluster head.cluster") << "a name for other hosts";
  EXPECT_EQ(both("-H h1 a : -H head b"), "h1 h1") << "rank 0 is of the first program";
  EXPECT_EQ(both("--nolocal -H head,h2 p"), "h2 h2");
  EXPECT_EQ(both("--map-by node:NOLOCAL -H head,h2 p"), "h2 h2");
  EXPECT_EQ(both("--default-hostfile D p"), "head.cluster head.cluster");
  EXPECT_EQ(both("-H +n1,h1 p"), " ") << "only mpirun knows";
  job.world.variables["PBS_NODEFILE"] = "/work dir/D";
  EXPECT_EQ(both("p"), "head.cluster h1");
}

TEST(JobSpec, AProgramIsLookedForOnlyWhereItSurelyStartsHere) {
  const auto here = [](const std::string& line) {
    const Options options = parse_options(split_shell_words(line));
    const System view = FakeWorld{}.view();
    const Allocation allocation = resolve_allocation(options, view);
    const MpirunInfo mpirun{"mpirun", true, 4, "4.1.4", ""};
    std::string answers;
    for (const AppContext& app : options.apps)
      answers += surely_starts_here({options, allocation, mpirun, {}, view}, app) ? "y" : "n";
    return answers;
  };
  EXPECT_EQ(here("p"), "y");
  EXPECT_EQ(here("-H head,h1 p"), "y");
  EXPECT_EQ(here("-H h1 p"), "n");
  EXPECT_EQ(here("-H head a : -H h1 b"), "yn");
  EXPECT_EQ(here("-H h1 a : -H head b"), "ny");
  EXPECT_EQ(here("--nolocal -H head,h1 p"), "n");
  EXPECT_EQ(here("-np 1 a : -H head,h1 b"), "yn") << "the first program may have filled this host";
}

TEST(JobSpec, MpirunLooksForProgramsOnThePathOfTheRanks) {
  FakeWorld world;
  world.variables["PATH"] = "/bin";
  const auto search = [&](const std::string& line) {
    return program_search(parse_options(split_shell_words(line)).apps.front(), world.view());
  };
  EXPECT_EQ(search("-x PATH=/a:/b p").path, "/a:/b");
  EXPECT_EQ(search("-x A=1 p").path, "/bin");
  EXPECT_EQ(search("-wdir sub p").directory, "/work dir/sub");
}

TEST(JobSpec, DdlVariablesReachAllHostsOnce) {
  Job job;
  job.world.entries = {"DDL_VERBOSE=1", "DDL_RAILS=a,b", "DDL_UNKNOWN=1"};
  std::string command = job.engine("-x DDL_VERBOSE=2 p");
  EXPECT_NE(command.find("--set DDL_RAILS=a,b"), std::string::npos);
  EXPECT_EQ(command.find("DDL_VERBOSE=1"), std::string::npos);
  EXPECT_EQ(command.find("DDL_UNKNOWN"), std::string::npos);
  job.world.variables["OMPI_MCA_mca_base_env_list"] = "A=1;DDL_RAILS=c";
  command = job.engine("p");
  EXPECT_EQ(command.find("DDL_RAILS"), std::string::npos) << "the parameter counts more";
  EXPECT_EQ(command.find("-x "), std::string::npos) << "Open MPI 4 refuses -x beside the parameter";
}

TEST(JobSpec, TheReportsNameIsMadeAbsolute) {
  EXPECT_NE(Job{}.engine("--report out/r.json p").find("'DDL_REPORT=/work dir/out/r.json'"),
            std::string::npos);
}

TEST(JobSpec, ModeAndWordsMakeDdlOptions) {
  Job job;
  EXPECT_NE(
      job.engine("-m b:4x2 -ddlarg '-dump_iter 100' p").find("'DDL_OPTIONS=-mode b:4x2 -dump_iter 100'"),
      std::string::npos);
  EXPECT_NE(job.engine("-m p -accelerators 4 -racks 2 -H a,b,c,d p").find("'DDL_OPTIONS=-mode p:4x2x2x1'"),
            std::string::npos);
  job.world.variables["DDL_OPTIONS"] = "-mode r -dbg_level 1";
  EXPECT_NE(job.engine("-m b p").find("'DDL_OPTIONS=-dbg_level 1 -mode b'"), std::string::npos);
  EXPECT_EQ(job.engine("-m b -no_ddloptions p").find("DDL_OPTIONS"), std::string::npos);
}

TEST(JobSpec, GpusAreSpokenOfWhereTheyMayMatter) {
  EXPECT_NE(Job{}.engine("-v p").find("--tell-gpus --verbose -- p"), std::string::npos);
  EXPECT_NE(Job{}.engine("--accelerators 2 p").find("--tell-gpus -- p"), std::string::npos);
  EXPECT_EQ(Job{}.engine("-np 2 p").find("--tell-gpus"), std::string::npos);
}

TEST(JobSpec, TheChoiceOfGpusIsTheUsers) {
  Job job;
  job.world.variables["CUDA_VISIBLE_DEVICES"] = "2,3";
  for (const char* line : {"-np 2 p", "--accelerators 2 -v p", "-H a:2,b:2 p"}) {
    EXPECT_EQ(job.engine(line).find("CUDA_VISIBLE_DEVICES"), std::string::npos) << line;
    for (const auto& [name, value] : job.make(line, engine_job).environment)
      EXPECT_NE(name, "CUDA_VISIBLE_DEVICES") << line;
  }
  EXPECT_NE(job.engine("-x CUDA_VISIBLE_DEVICES=1 p").find("-x CUDA_VISIBLE_DEVICES=1 "), std::string::npos);
}

TEST(JobSpec, SchedulersThatMpirunCannotReadBecomeAHostList) {
  Job job;
  job.world.variables["PBS_NODEFILE"] = "/f";
  job.world.files["/f"] = "a\na\nb\n";
  EXPECT_NE(job.engine("-np 3 p").find("-H a:2,b:1 -np 3"), std::string::npos);
}

TEST(JobSpec, RootIsAllowed) {
  Job job;
  job.world.root = true;
  Assignments set = job.make("p", engine_job).environment;
  EXPECT_NE(std::find(set.begin(), set.end(),
                      std::pair<std::string, std::string>{"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}),
            set.end());
  job.world.root = false;
  for (const auto& [name, value] : job.make("p", engine_job).environment)
    EXPECT_EQ(name.find("ROOT"), std::string::npos);
}

TEST(JobSpec, OpenMpi5GetsItsOwnForms) {
  Job job;
  job.major = 5;
  EXPECT_NE(job.engine("-rf F p").find("--map-by rankfile:file=F"), std::string::npos);
  EXPECT_NE(job.engine("-wdir /tmp -np 2 p").find("--wdir /tmp --np 2"), std::string::npos);
  EXPECT_THROW(job.engine("--use-regexp p"), UsageError);
  EXPECT_NO_THROW(job.engine("--prtemca a b p"));
  EXPECT_NE(job.engine("--display-comm --stop-in-init --initial-errhandler mpi_errors_return p").find("-- p"),
            std::string::npos);
  job.major = 4;
  EXPECT_NE(job.engine("-rf F p").find("-rf F"), std::string::npos);
  EXPECT_THROW(job.engine("--prtemca a b p"), UsageError);
}

TEST(JobSpec, AnInstallationThatCannotBePreloadedIsRefused) {
  Job job;
  job.installation.lib = "/opt/my libs";
  EXPECT_THROW(job.engine("p"), LaunchError);
}

}  // namespace ddl
