#include "core/base/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/full_disk.hpp"
#include "tests/support/temp_folder.hpp"

namespace ddl {
namespace {

namespace fs = std::filesystem;

class File : public test::TempFolder {
 protected:
  static std::string text_in(const std::string& name) {
    std::ifstream file(name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(File, ARewrittenOneIsWholeHasANewStampAndLeavesNothingBeside) {
  const std::string name = in_folder("report");
  EXPECT_EQ(stamp_of(name), FileStamp{});
  EXPECT_FALSE(write_file(name, "an old one"));
  FileStamp before = stamp_of(name);
  EXPECT_NE(before, FileStamp{});
  EXPECT_EQ(stamp_of(name), before);
  std::ifstream reader(name);
  EXPECT_FALSE(write_file(name, "a newer one"));
  EXPECT_NE(stamp_of(name), before);
  EXPECT_EQ(text_in(name), "a newer one");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(reader), {}), "an old one");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(File, ALinkStaysOne) {
  fs::create_symlink("report", in_folder("link"));
  EXPECT_FALSE(write_file(in_folder("link"), "one"));
  EXPECT_FALSE(write_file(in_folder("link"), "two"));
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_EQ(text_in(in_folder("report")), "two");
}

TEST_F(File, WhatCannotHoldTheTextIsTold) {
  EXPECT_EQ(write_file(in_folder("no/report"), "one"), std::errc::no_such_file_or_directory);
  EXPECT_TRUE(write_file(folder_.string(), "one"));
  EXPECT_TRUE(write_file("", "one"));
  EXPECT_EQ(write_file("/dev/full", "one"), std::errc::no_space_on_device);
}

TEST_F(File, WhatAKilledWriterHasLeftBesideItIsRemoved) {
  const std::string name = in_folder("report"), dead = name + ".ddl-4194305";  // no kernel gives that number
  const std::string others[] = {name,
                                name + ".1",
                                name + ".ddl-",
                                name + ".ddl-4194305x",
                                in_folder("other.ddl-4194305"),
                                name + ".ddl-" + std::to_string(::getpid())};
  std::ofstream{dead} << "half";
  for (const std::string& other : others) std::ofstream{other} << "whole";
  fs::create_symlink("report", in_folder("link"));
  remove_unfinished(in_folder("link"));
  EXPECT_FALSE(fs::exists(dead));
  for (const std::string& other : others) EXPECT_TRUE(fs::exists(other)) << other;
  remove_unfinished(in_folder("no/such"));
  remove_unfinished("");
}

TEST_F(File, OnAFullDiskTheOldOneStays) {
  const std::string name = in_folder("report");
  EXPECT_FALSE(write_file(name, "an old one"));
  {
    test::FullDisk full;
    EXPECT_EQ(write_file(name, std::string(1000, 'x')), std::errc::file_too_large);
  }
  EXPECT_EQ(text_in(name), "an old one");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(File, APipeIsWrittenToAndStaysOne) {
  const std::string name = in_folder("pipe");
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  std::string heard;
  std::thread reader([&] { heard = text_in(name); });
  EXPECT_FALSE(write_file(name, "one"));
  reader.join();
  EXPECT_EQ(heard, "one");
  EXPECT_TRUE(fs::is_fifo(name));
}

TEST_F(File, OnlyARegularOneHasAStamp) {
  EXPECT_EQ(stamp_of("/dev/null"), FileStamp{});
  EXPECT_EQ(stamp_of(folder_.string()), FileStamp{});
}

TEST_F(File, IsReadWithinBounds) {
  const std::string name = in_folder("text");
  EXPECT_FALSE(write_file(name, std::string(4096, 'x')));
  EXPECT_EQ(read_file(name, 4096).text, std::string(4096, 'x'));
  EXPECT_EQ(read_file(name, 4095).trouble, "it is larger than 3 KiB");
  EXPECT_EQ(read_file(name, 4095).text, "");
  EXPECT_EQ(read_file("/dev/zero", 1 << 20).trouble, "it is larger than 1024 KiB");
}

TEST_F(File, OneThatCannotBeReadIsToldAndThrowsNothing) {
  EXPECT_EQ(read_file("/proc/self/mem", 4096).trouble, "Input/output error");
  EXPECT_EQ(read_file(folder_.string(), 4096).trouble, "Is a directory");
  EXPECT_EQ(read_file(in_folder("none"), 4096).trouble, "No such file or directory");
}

}  // namespace
}  // namespace ddl
