#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "interpose/caller.h"
int ddl_is_users_call_by_walk(const void* return_address);
}

namespace {

using CallFunction = int (*)(int (*)());

int ask() { return ddl_is_users_call(__builtin_return_address(0)); }
int ask_by_walk() { return ddl_is_users_call_by_walk(__builtin_return_address(0)); }

/// The double of a caller, loaded from a file of that name.
class Caller {
 public:
  Caller(const std::filesystem::path& folder, const std::string& name) {
    std::filesystem::copy_file(DDL_CALLER_DOUBLE, folder / name,
                               std::filesystem::copy_options::skip_existing);
    handle_ = dlopen((folder / name).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) call_ = reinterpret_cast<CallFunction>(dlsym(handle_, "call"));
  }
  ~Caller() {
    if (handle_) dlclose(handle_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  CallFunction call() const { return call_; }

 private:
  void* handle_ = nullptr;
  CallFunction call_ = nullptr;
};

class CallerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "ddl-callers-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(CallerTest, TheFileTellsWhoseCallItIs) {
  for (const char* name :
       {"libmpi.so.40", "libmpi.so.40.30.4", "libmpi.so", "libopen-pal.so.40", "libopen-rte.so.40",
        "libprrte.so.3", "libmca_common_ompio.so.41", "mca_io_romio321.so", "mca_coll_tuned.so",
        "liboshmem.so.40", "libddl.so", "libddl_mpi.so", "libddl_shim.so"}) {
    Caller library(folder_, name);
    ASSERT_NE(library.call(), nullptr) << name;
    EXPECT_EQ(library.call()(ask), 0) << name;
    EXPECT_EQ(library.call()(ask_by_walk), 0) << name;
  }
  for (const char* name :
       {"libmpi_mpifh.so.40", "libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40", "libmpi_cxx.so.40",
        "libmpiP.so", "libuser.so", "mcalibrary.so", "libddl_poison.so"}) {
    Caller user(folder_, name);
    ASSERT_NE(user.call(), nullptr) << name;
    EXPECT_EQ(user.call()(ask), 1) << name;
    EXPECT_EQ(user.call()(ask_by_walk), 1) << name;
  }
}

TEST_F(CallerTest, TheFolderTellsNothing) {
  const std::filesystem::path folder = folder_ / "mca_io" / "libmpi.so.40";
  std::filesystem::create_directories(folder);
  Caller user(folder, "libuser.so");
  EXPECT_EQ(user.call()(ask), 1);
}

TEST_F(CallerTest, CodeOfNoFileIsTheUsers) {
  static int data;
  std::vector<char> generated(4096);
  EXPECT_EQ(ddl_is_users_call(generated.data()), 1);
  EXPECT_EQ(ddl_is_users_call_by_walk(generated.data()), 1);
  EXPECT_EQ(ddl_is_users_call(&data), 1);  // the program's own
  EXPECT_EQ(ask(), 1);
  EXPECT_EQ(ask_by_walk(), 1);
}

TEST_F(CallerTest, AnAddressIsAnotherFilesLater) {
  CallFunction before = nullptr;
  int again = 0;
  for (int round = 0; round < 20; ++round) {
    const bool is_users = round % 2;
    Caller caller(folder_, is_users ? "libuser.so" : "mca_plugin.so");
    again += caller.call() == before;
    before = caller.call();
    ASSERT_EQ(caller.call()(ask), is_users);
    ASSERT_EQ(caller.call()(ask_by_walk), is_users);
  }
  if (again == 0) GTEST_SKIP() << "no address came again";
}

TEST_F(CallerTest, ThreadsAskWhilePluginsComeAndGo) {
  Caller user(folder_, "libuser.so"), library(folder_, "libmpi.so.40");
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!is_over) wrong += user.call()(ask) != 1 || library.call()(ask) != 0;
    });
  for (int round = 0; round < 200; ++round) {
    Caller plugin(folder_, round % 2 ? "mca_plugin.so" : "libother.so");
    wrong += plugin.call()(ask) != (round % 2 == 0);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
