#include "launcher/reachability.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "launcher/messages.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

Strings shell(const std::string& line, const FakeWorld& world) {
  return remote_shell(parse_options(split_shell_words(line)), world.view());
}

// Checks the hosts of a command line with an agent; returns the message of the failure, "" when all answer.
std::string check(const std::string& line) {
  Options options = parse_options(split_shell_words(line));
  System world = this_system();
  Allocation allocation = resolve_allocation(options, world);
  MpirunInfo mpirun;
  Installation installation;
  try {
    check_hosts({options, allocation, mpirun, installation, world});
  } catch (const LaunchError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST(Reachability, TheAgentIsTheOneMpirunUses) {
  FakeWorld world;
  EXPECT_EQ(shell("p", world)[0], "ssh");
  world.variables["OMPI_MCA_plm_rsh_agent"] = "/x/agent -v";
  EXPECT_EQ(shell("p", world), (Strings{"/x/agent", "-v"}));
  EXPECT_EQ(shell("--mca plm_rsh_agent /y/agent p", world), (Strings{"/y/agent"}));
  EXPECT_EQ(shell("--mpiarg '--mca plm_rsh_agent /z/agent' p", world), (Strings{"/z/agent"}));
  EXPECT_EQ(shell("--prtemca plm_ssh_args '-p 23 -q' p", world),
            (Strings{"/x/agent", "-v", "-p", "23", "-q"}));
  EXPECT_TRUE(shell("--mca plm slurm p", world).empty());
  EXPECT_TRUE(shell("--mca plm ^rsh p", world).empty());
  EXPECT_FALSE(shell("--mca plm ^slurm p", world).empty());
  world.variables = {{"HOME", "/home/me"}};
  world.files["/home/me/.openmpi/mca-params.conf"] = "plm_rsh_agent = /f/agent\nplm_rsh_args=-v";
  EXPECT_EQ(shell("p", world), (Strings{"/f/agent", "-v"}));
  world.variables["SLURM_JOB_ID"] = "7";
  EXPECT_TRUE(shell("-H h1 p", world).empty()) << "the scheduler starts mpirun's daemons";
}

TEST(Reachability, SshNeverAsksForAPassword) {
  Strings words = shell("p", {});
  EXPECT_NE(std::find(words.begin(), words.end(), "BatchMode=yes"), words.end());
}

TEST(Reachability, ThisMachineNeedsNoShell) {
  Allocation allocation{AllocationSource::host_option,
                        {{"head", 1}, {"head.cluster", 1}, {"localhost", 1}, {"h2", 1}}};
  EXPECT_EQ(remote_hosts(allocation, "head.cluster"), (HostList{{"h2", 1}}));
}

TEST(Reachability, TheLastLineIsTheReason) {
  EXPECT_EQ(last_line("banner\nssh: no route\r\n\n"), "ssh: no route");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line(" \n"), "");
}

TEST(Reachability, AHostThatDoesNotAnswerIsNamedWithTheReason) {
  EXPECT_EQ(check("--mca plm_rsh_agent /bin/true -H nosuch-a,nosuch-b p"), "");
  std::string message = check("--mca plm_rsh_agent /bin/false -H nosuch-a,nosuch-b p");
  EXPECT_NE(message.find("hosts nosuch-a, nosuch-b cannot be reached"), std::string::npos) << message;
  const std::string file = testing::TempDir() + "hosts_of_bob";
  std::ofstream(file) << "nosuch-a slots=1 username=bob\n";
  message = check("--mca plm_rsh_agent 'sh -c \"echo to $0 >&2; false\"' --hostfile " + file + " p");
  EXPECT_NE(message.find("to bob@nosuch-a"), std::string::npos) << message;
  EXPECT_EQ(check("-s --mca plm_rsh_agent /bin/false -H nosuch-a p"), "");
}

}  // namespace ddl
