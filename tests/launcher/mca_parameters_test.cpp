#include "launcher/mca_parameters.hpp"

#include <gtest/gtest.h>

#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

std::string value(const std::string& line, const FakeWorld& world) {
  const Options options = parse_options(split_shell_words(line));
  return value_of(mca_parameters(options, world.view()), {"policy", "policy_of_5"});
}

}  // namespace

TEST(McaParameters, EveryPlaceWhereMpirunReadsThemIsLookedAt) {
  FakeWorld world;
  world.variables["HOME"] = "/home/me";
  EXPECT_EQ(value("p", world), "");
  world.files["/opt/mpi/etc/openmpi-mca-params.conf"] = "# policy = no\nother = 1\n policy = prefix\n";
  EXPECT_EQ(value("p", world), "prefix");
  world.files["/home/me/.openmpi/mca-params.conf"] = "policy=home # text\r\n";
  EXPECT_EQ(value("p", world), "home # text");
  world.files["/work dir/T"] = "-mca policy tuned -x A=1\n";
  world.files["/work dir/A"] = "policy = am\n";
  EXPECT_EQ(value("--tune T p", world), "tuned");
  EXPECT_EQ(value("--am A p", world), "am");
  world.variables["PRTE_MCA_policy_of_5"] = "variable=1";
  EXPECT_EQ(value("--am A p", world), "variable=1");
  EXPECT_EQ(value("--mca policy option p", world), "option");
  EXPECT_EQ(value("--mpiarg '-gmca policy words' p", world), "words");
}

TEST(McaParameters, TheDefaultHostfileIsFoundWhereItSaysSomething) {
  FakeWorld world;
  const auto file = [&](const std::string& line) {
    return default_hostfile(parse_options(split_shell_words(line)), world.view());
  };
  world.files["/etc/openmpi/openmpi-default-hostfile"] = "# a comment\n";
  EXPECT_EQ(file("p"), "");
  world.files["/opt/mpi/etc/openmpi-default-hostfile"] = "h0\n";
  EXPECT_EQ(file("p"), "/opt/mpi/etc/openmpi-default-hostfile");
  world.files["/work dir/F"] = world.files["/G"] = "h1\n";
  world.variables["OMPI_MCA_orte_default_hostfile"] = "/G";
  EXPECT_EQ(file("p"), "/G");
  EXPECT_EQ(file("--default-hostfile F p"), "F");
}

}  // namespace ddl
