#include "launcher/options.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

Options parse(const std::string& line) { return parse_options(split_shell_words(line)); }

// The message of the UsageError that the line causes.
std::string fault(const std::string& line) {
  try {
    parse(line);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

}  // namespace

TEST(Options, TheProgramIsTheFirstWordThatIsNoOption) {
  Options options = parse("--bind-to none --map-by slot -wdir /tmp -np 4 prog -np 7 --dry-run");
  ASSERT_EQ(options.apps.size(), 1u);
  EXPECT_EQ(options.apps[0].program, "prog");
  EXPECT_EQ(options.apps[0].args, (Strings{"-np", "7", "--dry-run"}));
  EXPECT_FALSE(options.dry_run);
}

TEST(Options, MpirunsOptionsKeepOrderAndSpelling) {
  Options options = parse("-mca btl tcp --mca pml ob1 -x A=b -x C --oversubscribe -hostfile F prog");
  Strings words;
  for (const PassedOption& option : options.apps[0].options) {
    words.push_back(option.word);
    words.insert(words.end(), option.values.begin(), option.values.end());
  }
  EXPECT_EQ(join(words, " "), "-mca btl tcp --mca pml ob1 -x A=b -x C --oversubscribe -hostfile F");
}

TEST(Options, AContextWithoutAWordIsNone) {
  for (const char* line : {"-np 1 a : -np 2 b :", ": -np 1 a : -np 2 b", "-np 1 a : : -np 2 b : :"}) {
    Options options = parse(line);
    ASSERT_EQ(options.apps.size(), 2u) << line;
    EXPECT_EQ(options.apps[1].program, "b") << line;
  }
  EXPECT_NE(fault("-np 1 :").find("no program before ':'"), std::string::npos);
  EXPECT_NE(fault("a : -np 1").find("no program is given"), std::string::npos);
  EXPECT_NE(fault(":").find("no program is given"), std::string::npos);
}

TEST(Options, BothDashesAndAttachedValuesWork) {
  EXPECT_EQ(parse("--hostfile=F prog").apps[0].options[0].values, (Strings{"F"}));
  EXPECT_EQ(parse("-host h1,h2 prog").apps[0].options[0].name, "host");
  EXPECT_TRUE(parse("-dry-run prog").dry_run);
  EXPECT_EQ(parse("--report=r.json prog").report_file, "r.json");
}

TEST(Options, TwoDashesAloneEndTheOptions) {
  Options options = parse("-np 2 -- -odd-name x");
  EXPECT_EQ(options.apps[0].program, "-odd-name");
}

TEST(Options, ColonsSeparatePrograms) {
  Options options = parse("-np 1 a x : -np 2 --wdir /tmp b : c");
  ASSERT_EQ(options.apps.size(), 3u);
  EXPECT_EQ(options.apps[0].args, (Strings{"x"}));
  EXPECT_EQ(options.apps[1].program, "b");
  EXPECT_EQ(options.apps[1].options[0].values, (Strings{"2"}));
  EXPECT_EQ(options.apps[2].program, "c");
}

TEST(Options, IbmsOptionsAreUnderstood) {
  Options options = parse(
      "-m b:4x2 -ddlarg '-dump_iter 100' -aisles 1 -racks 2 -nodes 4 -accelerators 4 -mpiarg '-x A=\"b c\"' "
      "-mpiarg --quiet -tcp -v -s prog");
  EXPECT_EQ(options.mode, "b:4x2");
  EXPECT_EQ(options.ddl_args, (Strings{"-dump_iter 100"}));
  EXPECT_EQ(options.mpi_args, (Strings{"-x", "A=b c", "--quiet"}));
  EXPECT_EQ(*options.racks * *options.nodes, 8u);
  EXPECT_TRUE(options.tcp && options.verbose && options.skip_checks);
}

TEST(Options, TopologyNeedsNoProgram) {
  EXPECT_FALSE(parse("--topology").has_program());
  EXPECT_EQ(parse("--topology=t.svg -H h1").topology_file, "t.svg");
  EXPECT_NE(fault("--topology=t.png"), "(accepted)");
}

TEST(Options, AnUnknownOptionNamesTheNearest) {
  EXPECT_NE(fault("--overscribe prog").find("did you mean --oversubscribe?"), std::string::npos);
  EXPECT_NE(fault("--dryrun prog").find("did you mean --dry-run?"), std::string::npos);
  EXPECT_NE(
      fault("--frobnicate-all p").find("(ddlrun does not know it); --mpiarg \"--frobnicate-all\" passes"),
      std::string::npos);
  EXPECT_NE(fault("-hostfil F prog").find("unknown option -hostfil "), std::string::npos);
}

TEST(Options, BadValuesAreRefused) {
  for (const char* line : {"-np 0 p",
                           "-np x p",
                           "-np -1 p",
                           "-np",
                           "-np 2",
                           "",
                           "-H h1:x p",
                           "-H , p",
                           "-H h1::2 p",
                           "-m z p",
                           "-m b:4x p",
                           "--nodes 0 p",
                           "--accelerators 0 p",
                           "--accelerators four p",
                           "--accelerators",
                           "--dry-run=1 p",
                           "--help-env=html",
                           "--report '' p",
                           "-x DDL_ENABLE=maybe p",
                           "--report a -x DDL_REPORT=b p",
                           "--app F",
                           "--oversubscribe=1 p",
                           "--mpiarg \"'\" p",
                           "''"})
    EXPECT_NE(fault(line), "(accepted)") << line;
}

TEST(Options, OtherLaunchersOptionsAreSaidInMpirunsWords) {
  auto words = [](const std::string& line) {
    Strings all;
    const Options options = parse(line);
    for (const PassedOption& option : options.apps[0].options) {
      all.push_back(option.word);
      all.insert(all.end(), option.values.begin(), option.values.end());
    }
    return join(all, " ");
  };
  EXPECT_EQ(words("-n 4 -ppn 2 -genv A 1 -genvlist B,C -f hosts -genvall p"),
            "-n 4 -N 2 -x A=1 -x B -x C --hostfile hosts");
  EXPECT_EQ(words("--ntasks=4 --ntasks-per-node 2 -w n1,n2 p"), "-np 4 -N 2 -H n1,n2");
}

TEST(Options, OtherLaunchersOptionsThatDoNotFitAreAnswered) {
  EXPECT_EQ(parse("--nproc_per_node=2 p").apps[0].options[0].name, "N");
  EXPECT_NE(fault("--gpus-per-task 1 p").find("option of another launcher; every rank sees the GPUs"),
            std::string::npos);
  EXPECT_NE(fault("--nnodes 2 p").find("--nnodes is an option of another launcher; the hosts are -H"),
            std::string::npos);
  EXPECT_NE(fault("--master_addr h1 p").find("-x MASTER_ADDR=HOST"), std::string::npos);
  EXPECT_NE(fault("-ppn 0 p").find("it counts from 1"), std::string::npos);
  EXPECT_NE(fault("-genv DDL_ENABLE maybe p").find("0|1"), std::string::npos);
  EXPECT_NE(fault("-genv '' 1 p").find("no name"), std::string::npos);
  EXPECT_NE(fault("-genv A"), "(accepted)");
}

TEST(Options, AnAppFileNamesThePrograms) {
  auto read = [](const std::string& file) -> std::optional<std::string> {
    if (file == "nested") return "--app F\n";
    if (file != "F") return std::nullopt;
    return "# two programs\n-np 2 a 'b # c'\n\n  -np 1 -x D=1 e#f # it's the second\n";
  };
  auto given = [&](const std::string& line) { return parse_options(split_shell_words(line), read); };
  Options options = given("-v --bind-to none --app F");
  EXPECT_TRUE(options.verbose);
  ASSERT_EQ(options.apps.size(), 2u);
  EXPECT_EQ(options.apps[0].program, "a");
  EXPECT_EQ(options.apps[0].args, (Strings{"b # c"}));
  EXPECT_EQ(options.apps[0].options[0].name, "bind-to");
  EXPECT_EQ(options.apps[1].program, "e#f");
  EXPECT_TRUE(options.apps[1].args.empty());
  for (const char* line : {"--app G", "--app F prog", "--app=nested", "-np 1 a : --app"})
    EXPECT_THROW(given(line), UsageError) << line;
}

TEST(Options, HelpWinsOverWhatFollows) {
  EXPECT_EQ(parse("--help --nonsense").action, Action::show_help);
  EXPECT_EQ(parse("--help-env=markdown").action, Action::show_env_markdown);
  EXPECT_EQ(parse("-V").action, Action::show_version);
}

}  // namespace ddl
