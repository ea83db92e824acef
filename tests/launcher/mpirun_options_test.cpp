#include "launcher/mpirun_options.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <sstream>

#include "core/base/env.hpp"
#include "launcher/mpirun_info.hpp"
#include "launcher/run_command.hpp"

namespace ddl {
namespace {

// The names and the number of <arg>s in one line of mpirun's help, such as `-H|-host|--host <arg0>   text`.
void compare_help_line(const std::string& line) {
  std::istringstream words(line);
  std::string names, word;
  words >> names;
  int values = 0;
  while (words >> word && word.rfind("<arg", 0) == 0) ++values;
  for (const std::string& name : split(names, '|')) {
    std::string bare = name.substr(name.find_first_not_of('-'));
    static const std::set<std::string> ours = {"h", "help", "v", "verbose", "V", "version", "s"};
    if (ours.count(bare)) continue;
    const MpirunOption* row = find_mpirun_option(bare);
    ASSERT_TRUE(row) << line;
    EXPECT_EQ(row->values, values) << line;
    EXPECT_NE(row->known_to, KnownTo::open_mpi_5) << line;
  }
}

}  // namespace

TEST(MpirunOptions, NamesAreUnique) {
  Strings names = mpirun_option_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(MpirunOptions, TheTableAgreesWithTheHelpOfOpenMpi4) {
  std::string help;
  for (const char* command : {"mpirun", "mpirun.openmpi"}) {
    if (!help.empty() || find_on_path(command, foreign_env("PATH"), ".").empty()) continue;
    Strings ask = {"env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", command, "--help",
                   "all"};
    std::string text = run_command(ask, std::chrono::seconds(20)).output;
    if (parse_mpirun_version(command, text).major == 4) help = text;
  }
  if (help.empty()) GTEST_SKIP() << "no mpirun of Open MPI 4 here";
  int compared = 0;
  for (const std::string& line : split(help, '\n')) {
    std::size_t start = line.find_first_not_of(' ');
    if (start == std::string::npos || start > 3 || line[start] != '-' || line[start + 1] == ' ') continue;
    compare_help_line(line);
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

TEST(MpirunOptions, BindingIsRecognisedInAllItsForms) {
  EXPECT_TRUE(chooses_binding("bind-to", {"core"}));
  EXPECT_TRUE(chooses_binding("bind-to-socket", {}));
  EXPECT_TRUE(chooses_binding("map-by", {"slot:PE=2"}));
  EXPECT_TRUE(parameter_chooses_binding("hwloc_base_binding_policy", "core"));
  EXPECT_TRUE(chooses_binding("rankfile", {"F"}));
  EXPECT_FALSE(chooses_binding("map-by", {"ppr:2:node"}));
  EXPECT_FALSE(parameter_chooses_binding("btl", "tcp,self"));
  EXPECT_FALSE(chooses_binding("report-bindings", {}));
}

}  // namespace ddl
