#include "core/tune/cache_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/file.hpp"
#include "tests/support/temp_folder.hpp"

namespace ddl {
namespace {

namespace fs = std::filesystem;

using CacheFile = test::TempFolder;

}  // namespace

TEST_F(CacheFile, WhatIsWrittenIsRead) {
  EXPECT_EQ(read_cache_file("").trouble, "");
  EXPECT_EQ(read_cache_file(in_folder("new")).trouble, "");
  write_cache_file(in_folder("new"), "one", Old::replace);
  write_cache_file(in_folder("new"), "two", Old::replace);
  EXPECT_EQ(read_cache_file(in_folder("new")).text, "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(CacheFile, WhatIsNoFileIsNamedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(in_folder("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_cache_file(in_folder("pipe")).trouble, "it is no file");
  EXPECT_EQ(read_cache_file(folder_.string()).trouble, "it is no file");
}

TEST_F(CacheFile, WhatIsTooLargeOrCannotBeReadIsNamed) {
  EXPECT_FALSE(write_file(in_folder("large"), std::string(kMostCacheBytes + 1, 'x')));
  EXPECT_EQ(read_cache_file(in_folder("large")).trouble, "it is larger than 1024 KiB");
  EXPECT_EQ(read_cache_file(in_folder("large")).text, "");
  EXPECT_EQ(read_cache_file("/proc/self/mem").trouble, "Input/output error");
}

TEST_F(CacheFile, WhatIsNoCacheIsKeptBeside) {
  write_cache_file(in_folder("notes"), "mine", Old::replace);
  write_cache_file(in_folder("notes"), "measured", Old::keep);
  EXPECT_EQ(read_cache_file(in_folder("notes")).text, "measured");
  EXPECT_EQ(read_cache_file(in_folder("notes.bad")).text, "mine");
}

TEST_F(CacheFile, ALinkStaysOne) {
  write_cache_file(in_folder("cache"), "one", Old::replace);
  fs::create_symlink("cache", in_folder("link"));
  write_cache_file(in_folder("link"), "two", Old::replace);
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_EQ(read_cache_file(in_folder("cache")).text, "two");
}

TEST_F(CacheFile, AFolderThatIsMissingIsAnError) {
  EXPECT_THROW(write_cache_file(in_folder("no/cache"), "one", Old::replace), Error);
}

}  // namespace ddl
