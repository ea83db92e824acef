// The rules of the house that a compiler does not see: who may include whom.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

namespace ddl {
namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file, header;
};

std::vector<Include> includes_under(const std::vector<std::string>& folders) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<Include> includes;
  for (const std::string& folder : folders)
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(DDL_SOURCE_DIR) / folder)) {
      std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".h" && extension != ".c" &&
          extension != ".inl")
        continue;
      std::ifstream file(entry.path());
      std::smatch found;
      for (std::string line; std::getline(file, line);)
        if (std::regex_search(line, found, kInclude))
          includes.push_back({fs::relative(entry.path(), DDL_SOURCE_DIR), found[1]});
    }
  return includes;
}

void expect_only_in(const std::string& header_start, const std::vector<std::string>& places,
                    const std::vector<std::string>& folders = {"core", "hwloc_topo", "interpose",
                                                               "launcher"}) {
  for (const Include& include : includes_under(folders)) {
    if (include.header.rfind(header_start, 0) != 0) continue;
    bool allowed = false;
    for (const std::string& place : places) allowed |= include.file.rfind(place, 0) == 0;
    EXPECT_TRUE(allowed) << include.file << " includes <" << include.header << ">";
  }
}

void expect_never(const std::string& folder, const std::vector<std::string>& headers) {
  for (const Include& include : includes_under({folder}))
    for (const std::string& header : headers)
      EXPECT_NE(include.header.rfind(header, 0), 0u) << include.file << " includes " << include.header;
}

}  // namespace

TEST(HouseRules, EachForeignLibraryIsConfinedToItsFiles) {
  expect_only_in("hwloc.h", {"hwloc_topo/"});
  expect_only_in("hwloc/", {"hwloc_topo/"});
  expect_only_in("pmix", {"core/bootstrap/pmix"});
  expect_only_in("ucp/", {"core/transport/ucx"});
  expect_only_in("mpi.h", {"interpose/mpi/"});
  expect_only_in("cuda", {});  // declared by ourselves: the build needs no CUDA
}

// The topology asks the kernel for interfaces, and reads addresses; the shared memory polls pipes.
TEST(HouseRules, SocketsAreConfinedToTheNet) {
  for (const char* header : {"sys/socket.h", "netdb.h", "sys/epoll.h", "netinet/tcp.h"})
    expect_only_in(header, {"core/net/"}, {"core", "interpose"});
  for (const char* header : {"netinet/in.h", "arpa/inet.h", "ifaddrs.h"})
    expect_only_in(header, {"core/net/", "core/topology/nics"}, {"core", "interpose"});
  expect_only_in("poll.h", {"core/net/", "core/transport/shared_memory"}, {"core", "interpose"});
}

TEST(HouseRules, TheRoomsKnowOnlyThoseBelowThem) {
  expect_never("core", {"launcher/", "interpose/", "hwloc_topo/"});
  expect_never("hwloc_topo", {"launcher/", "interpose/"});
  expect_never("interpose", {"launcher/", "hwloc_topo/"});
  expect_never("launcher", {"interpose/"});
}

TEST(HouseRules, InsideCoreTheValuesDoNotKnowTheAction) {
  for (const char* room : {"plan", "topology", "transport", "collective", "reduce", "bootstrap", "native",
                           "trace", "device", "tune", "session"})
    expect_never("core/net", {std::string("core/") + room});
  expect_never("core/base", {"core/net", "core/plan", "core/transport", "core/collective", "core/reduce",
                             "core/bootstrap", "core/native"});
  for (const char* room : {"topology", "plan", "reduce", "trace", "device", "collective", "tune"})
    expect_never(std::string("core/") + room, {"core/net"});
  expect_never("core/plan",
               {"core/transport", "core/collective", "core/reduce", "core/bootstrap", "core/native"});
  expect_never("core/reduce",
               {"core/plan", "core/transport", "core/collective", "core/bootstrap", "core/native"});
  expect_never("core/transport",
               {"core/plan", "core/collective", "core/reduce", "core/bootstrap", "core/native"});
  expect_never("core/device",
               {"core/plan", "core/transport", "core/collective", "core/bootstrap", "core/native"});
  expect_never("core/bootstrap", {"core/plan", "core/collective", "core/transport", "core/native"});
  expect_never("core/collective", {"core/tune", "core/bootstrap", "core/native"});
  expect_never("core/tune", {"core/collective", "core/transport", "core/bootstrap", "core/native"});
}

TEST(HouseRules, TheSessionKnowsAllOfCoreAndOnlyTheBoundaryKnowsTheSession) {
  expect_only_in("core/session/",
                 {"core/session/", "core/native/", "core/ddl", "core/engine_api", "core/native_api"});
  expect_only_in("core/engine_api", {"core/engine_api", "interpose/"});
  expect_never("core/session", {"core/native", "core/engine_api", "core/native_api"});
}

}  // namespace ddl
