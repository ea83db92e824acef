#include "launcher/program.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elf.h>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "launcher/system.hpp"

namespace ddl {
namespace {

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/ddl-program-XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string make(const std::string& name, const std::string& bytes, mode_t mode) {
    std::string file = folder_ + "/" + name;
    std::ofstream(file, std::ios::binary) << bytes;
    chmod(file.c_str(), mode);
    return file;
  }

  std::string folder_;
};

// A 64-bit ELF header followed by one program header of the given type.
std::string elf_file(std::uint32_t segment_type) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Phdr segment{};
  segment.p_type = segment_type;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes + std::string(reinterpret_cast<const char*>(&segment), sizeof segment);
}

}  // namespace

TEST_F(ProgramTest, ABareNameIsLookedForOnPathAndThenInTheDirectory) {
  std::string own = make("only-here", "#!/bin/sh\n", 0755);
  EXPECT_EQ(find_program("only-here", {"", "/bin", folder_}), own);
  EXPECT_EQ(find_program("sh", {"", "/bin", folder_}), "/bin/sh");
  EXPECT_EQ(find_program("only-here", {folder_, "/bin", "/"}), own);
  EXPECT_EQ(find_program("nowhere", {"", "/bin", folder_}), "");
}

TEST_F(ProgramTest, APathIsTakenFromTheDirectory) {
  std::string own = make("prog", "", 0755);
  EXPECT_EQ(find_program("./prog", {"", "", folder_}), own);
  make("data", "", 0644);
  EXPECT_EQ(find_program("./data", {"", "", folder_}), "");
}

TEST_F(ProgramTest, AFolderBehindALinkIsNotLeftByItsText) {
  const std::string real = folder_ + "/real";
  std::filesystem::create_directories(real + "/sub");
  std::filesystem::create_directory_symlink("real/sub", folder_ + "/link");
  make("prog", "", 0755);
  make("real/prog", "", 0755);
  const std::string found = find_program("link/../prog", {"", "", folder_});
  EXPECT_TRUE(std::filesystem::equivalent(found, real + "/prog")) << found;
  EXPECT_EQ(absolute_path("./a", "/d"), "/d/a");
  EXPECT_EQ(absolute_path("./", "/d"), "/d/");
  EXPECT_EQ(absolute_path("/a/../b", "/d"), "/a/../b");
}

TEST_F(ProgramTest, WhatCannotBeStartedIsNamedWithItsReason) {
  const auto said = [&](const std::string& name) {
    const auto trouble = trouble_with_program(name, {"", "/bin", folder_});
    return trouble ? trouble->problem + " (" + trouble->reason + ")" : std::string();
  };
  make("data", "", 0644);
  std::filesystem::create_directory(folder_ + "/sub");
  EXPECT_EQ(said("sh"), "");
  EXPECT_EQ(said("nowhere"), "is not found (searched PATH and " + folder_ + ")");
  EXPECT_EQ(said("./nowhere"), "is not found (there is no file " + folder_ + "/nowhere)");
  EXPECT_EQ(said("./data"), "cannot be executed (" + folder_ + "/data has no permission for that)");
  EXPECT_EQ(said("sub"), "cannot be executed (" + folder_ + "/sub is a folder)");
}

TEST_F(ProgramTest, AScriptThatNeedsItsInterpreterGetsAHint) {
  make("plain.py", "print(1)\n", 0644);
  make("no_line.py", "print(1)\n", 0755);
  make("whole.py", "#!/usr/bin/env python3\n", 0755);
  make("data", "1", 0644);
  EXPECT_EQ(hint_for_script("plain.py", folder_), "python3 plain.py");
  EXPECT_EQ(hint_for_script("no_line.py", folder_), "python3 no_line.py");
  for (const char* name : {"whole.py", "data", "none.py"})
    EXPECT_EQ(hint_for_script(name, folder_), "") << name;
}

TEST_F(ProgramTest, AStaticProgramIsRecognised) {
  EXPECT_EQ(judge_program(make("static", elf_file(PT_LOAD), 0755)), Preloadable::statically);
  EXPECT_EQ(judge_program(make("dynamic", elf_file(PT_INTERP), 0755)), Preloadable::yes);
  EXPECT_EQ(judge_program(make("script", "#!/bin/sh\n", 0755)), Preloadable::yes);
  EXPECT_EQ(judge_program("/proc/self/exe"), Preloadable::yes);
}

TEST_F(ProgramTest, ASetuidProgramOfAnotherUserIsRecognised) {
  std::string file = make("setuid", elf_file(PT_INTERP), 0755);
  if (geteuid() == 0 && chown(file.c_str(), 65534, 0) != 0) GTEST_SKIP() << "cannot change owners here";
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make another user's file";
  chmod(file.c_str(), 04755);
  EXPECT_EQ(judge_program(file), Preloadable::privileged);
}

// The programs are built in this folder's CMakeLists.txt.
TEST_F(ProgramTest, NcclInsideAProgramIsRecognised) {
  EXPECT_TRUE(gpu_use(DDL_NCCL_INSIDE).nccl_inside);
  EXPECT_TRUE(gpu_use(DDL_NCCL_INSIDE).cuda);
  EXPECT_TRUE(gpu_use(DDL_NCCL_EXPORTED).nccl_inside) << "stripped, but among the dynamic symbols";
}

TEST_F(ProgramTest, AProgramThatOnlyCallsNcclDoesNotContainIt) {
  EXPECT_FALSE(gpu_use(DDL_NCCL_OUTSIDE).nccl_inside);
  EXPECT_TRUE(gpu_use(DDL_NCCL_OUTSIDE).cuda);
}

TEST_F(ProgramTest, AStrippedProgramGivesNoAnswer) {
  EXPECT_FALSE(gpu_use(DDL_NCCL_STRIPPED).nccl_inside);
  EXPECT_FALSE(gpu_use(DDL_NCCL_STRIPPED).cuda);
}

TEST_F(ProgramTest, OtherProgramsHaveNothingToDoWithGpus) {
  for (const std::string& file : {std::string("/bin/sh"), make("script", "#!/bin/sh\n", 0755),
                                  make("short", elf_file(PT_INTERP), 0755), folder_ + "/missing"})
    EXPECT_FALSE(gpu_use(file).cuda || gpu_use(file).nccl_inside) << file;
}

TEST_F(ProgramTest, MpiInsideAProgramIsRecognised) {
  EXPECT_TRUE(contains_mpi(DDL_MPI_INSIDE));
  EXPECT_FALSE(contains_mpi(DDL_MPI_TOOL)) << "it calls the MPI of a library";
  EXPECT_FALSE(contains_mpi("/bin/sh"));
}

}  // namespace ddl
