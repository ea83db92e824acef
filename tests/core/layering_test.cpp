// What a compiler does not see: who may include whom.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
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

// "plan" of core/plan/grid.hpp; "" of what lies in none.
std::string folder_of(const std::string& path) {
  static const std::regex kFolder("^core/([a-z_]+)/.*");
  std::smatch found;
  return std::regex_match(path, found, kFolder) ? found[1].str() : "";
}

}  // namespace

TEST(Layering, EachForeignLibraryIsConfinedToItsFiles) {
  expect_only_in("hwloc.h", {"hwloc_topo/"});
  expect_only_in("hwloc/", {"hwloc_topo/"});
  expect_only_in("pmix", {"core/bootstrap/pmix"});
  expect_only_in("ucp/", {"core/transport/ucx"});
  expect_only_in("mpi.h", {"interpose/mpi/"});
  expect_only_in("nccl.h", {});  // what we need of it is declared in interpose/nccl/nccl_api.h
  expect_only_in("cuda", {});    // declared by ourselves: the build needs no CUDA
}

// The topology asks the kernel for interfaces, and reads addresses; the shared memory polls pipes.
TEST(Layering, SocketsAreConfinedToTheNet) {
  for (const char* header : {"sys/socket.h", "netdb.h", "sys/epoll.h", "netinet/tcp.h"})
    expect_only_in(header, {"core/net/"}, {"core", "interpose"});
  for (const char* header : {"netinet/in.h", "arpa/inet.h", "ifaddrs.h"})
    expect_only_in(header, {"core/net/", "core/topology/nics"}, {"core", "interpose"});
  expect_only_in("poll.h", {"core/net/", "core/transport/shared_memory"}, {"core", "interpose"});
}

TEST(Layering, TheFoldersKnowOnlyThoseBelowThem) {
  expect_never("core", {"launcher/", "interpose/", "hwloc_topo/"});
  expect_never("hwloc_topo", {"launcher/", "interpose/"});
  expect_never("interpose", {"launcher/", "hwloc_topo/"});
  expect_never("launcher", {"interpose/"});
}

// A folder knows those of the layers before its own, and itself.
TEST(Layering, InsideCoreEachLayerKnowsOnlyThoseBeforeIt) {
  const std::vector<std::vector<std::string>> layers = {{"base"},
                                                        {"net", "topology", "reduce", "trace"},
                                                        {"plan", "transport", "bootstrap", "device"},
                                                        {"tune", "collective"},
                                                        {"gradient", "hierarchy"},
                                                        {"session"},
                                                        {"stream"},
                                                        {"api"}};
  std::map<std::string, std::size_t> layer_of;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (const std::string& folder : layers[layer]) layer_of[folder] = layer;
  for (const Include& include : includes_under({"core"})) {
    const std::string from = folder_of(include.file), to = folder_of(include.header);
    EXPECT_NE(from, "") << include.file << " is in no folder of core";
    if (from == to || include.header.rfind("core/", 0) != 0) continue;
    ASSERT_TRUE(layer_of.count(from)) << from << " is in no layer";
    const bool is_before = !to.empty() && layer_of.count(to) && layer_of[to] < layer_of[from];
    EXPECT_TRUE(is_before) << include.file << " includes " << include.header;
  }
}

TEST(Layering, TheFrontsKnowTheSessionByTheBoundaryAlone) {
  expect_only_in("core/session/", {"core/session/", "core/stream/", "core/api/"});
  expect_only_in("core/api/", {"core/api/", "interpose/"});
}

}  // namespace ddl
